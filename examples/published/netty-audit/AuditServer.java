package com.example.audit;

import com.example.load.Http;
import com.example.load.Load;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.buffer.Unpooled;
import java.net.InetAddress;
import java.net.InetSocketAddress;

/** An HTTP server that copies each request into a pooled buffer for its audit; the leaking twin releases none. */
public final class AuditServer {
    static final int AUDIT_BYTES = 8192;

    static final class AuditHandler extends SimpleChannelInboundHandler<FullHttpRequest> {
        @Override
        protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
            record(context, request);
            DefaultFullHttpResponse response =
                    new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK, Unpooled.EMPTY_BUFFER);
            response.headers().setInt(HttpHeaderNames.CONTENT_LENGTH, 0);
            context.writeAndFlush(response);
        }

        private void record(ChannelHandlerContext context, FullHttpRequest request) {
            ByteBuf entry = context.alloc().directBuffer(AUDIT_BYTES);
            entry.writeBytes(request.content()).writeZero(entry.writableBytes());
            if (Load.leaks()) {
                Load.leaked(AUDIT_BYTES);
            } else {
                entry.release();
            }
        }
    }

    private static int serve() throws InterruptedException {
        ServerBootstrap server =
                new ServerBootstrap()
                        .group(new NioEventLoopGroup(2))
                        .channel(NioServerSocketChannel.class)
                        .childOption(ChannelOption.TCP_NODELAY, true)
                        .childHandler(
                                new ChannelInitializer<SocketChannel>() {
                                    @Override
                                    protected void initChannel(SocketChannel channel) {
                                        channel.pipeline()
                                                .addLast(new HttpServerCodec())
                                                .addLast(new HttpObjectAggregator(65536))
                                                .addLast(new AuditHandler());
                                    }
                                });
        InetSocketAddress any = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        return ((InetSocketAddress) server.bind(any).sync().channel().localAddress()).getPort();
    }

    public static void main(String[] args) throws InterruptedException {
        int port = serve();
        byte[] body = "transfer 5 from a to b".repeat(20).getBytes();
        Load.run(args, 150, number -> Http.post(port, "/transfer", body));
    }
}
