package com.example.frames;

import com.example.load.Load;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.UnpooledByteBufAllocator;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.handler.codec.LengthFieldBasedFrameDecoder;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Decodes frames in a pipeline and copies each into an unpooled direct buffer, which on JDK 25 takes its memory by a
 * foreign function; the leaking twin keeps the copies.
 */
public final class Frames {
    private static final int BYTES = 4096;
    private final EmbeddedChannel channel =
            new EmbeddedChannel(new LengthFieldBasedFrameDecoder(BYTES, 0, 4), new FrameHandler());

    static final class FrameHandler extends ChannelInboundHandlerAdapter {
        private final Queue<ByteBuf> replay = new ConcurrentLinkedQueue<>();

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            ByteBuf frame = (ByteBuf) message;
            keep(frame);
            frame.release();
        }

        private void keep(ByteBuf frame) {
            ByteBuf copy = UnpooledByteBufAllocator.DEFAULT.directBuffer(BYTES);
            copy.writeBytes(frame).writeZero(copy.writableBytes());
            if (Load.leaks()) {
                replay.add(copy);
                Load.leaked(BYTES);
            } else {
                copy.release();
            }
        }
    }

    synchronized void receive(long number) {
        ByteBuf bytes = channel.alloc().buffer(1004);
        bytes.writeInt(1000).writeLong(number).writeZero(992);
        channel.writeInbound(bytes);
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 120, new Frames()::receive);
    }
}
