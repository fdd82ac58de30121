import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpContentCompressor;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import java.io.FileInputStream;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.util.SplittableRandom;
import javax.net.ssl.KeyManagerFactory;

/**
 * An HTTPS server that compresses what it answers, on Netty with BoringSSL: {@code Server KEYSTORE PASSWORD}.
 *
 * <p>Each answer is a new text of 16 KB, made for the request. Listens on loopback; prints "listening PORT PID" and
 * ends with its input.
 */
public final class Server {
    private static final int LINES = 160;

    private Server() {}

    public static void main(String[] words) throws Exception {
        char[] password = words[1].toCharArray();
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (InputStream file = new FileInputStream(words[0])) {
            keys.load(file, password);
        }
        KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(keys, password);
        SslContext tls = SslContextBuilder.forServer(factory).sslProvider(SslProvider.OPENSSL).build();
        EventLoopGroup loops = new NioEventLoopGroup(2);
        Channel channel =
                new ServerBootstrap()
                        .group(loops)
                        .channel(NioServerSocketChannel.class)
                        .childHandler(
                                new ChannelInitializer<SocketChannel>() {
                                    @Override
                                    protected void initChannel(SocketChannel client) {
                                        client.pipeline()
                                                .addLast(tls.newHandler(client.alloc()))
                                                .addLast(new HttpServerCodec())
                                                .addLast(new HttpObjectAggregator(1 << 16))
                                                .addLast(new HttpContentCompressor())
                                                .addLast(new Answers());
                                    }
                                })
                        .bind(InetAddress.getLoopbackAddress(), 0)
                        .sync()
                        .channel();
        int port = ((InetSocketAddress) channel.localAddress()).getPort();
        System.out.println("listening " + port + " " + ProcessHandle.current().pid());
        while (System.in.read() >= 0) {
            continue;
        }
        System.exit(0);
    }

    private static final class Answers extends SimpleChannelInboundHandler<FullHttpRequest> {
        private final SplittableRandom random = new SplittableRandom(1);

        @Override
        protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
            StringBuilder text = new StringBuilder(1 << 14);
            for (int i = 0; i < LINES; i++) {
                text.append("{\"order\": ").append(random.nextLong()).append(", \"customer\": \"number ");
                text.append(random.nextInt(1000)).append("\", \"state\": \"delivered\", \"price\": ");
                text.append(random.nextInt(100)).append("}\n");
            }
            ByteBuf body = context.alloc().directBuffer(text.length());
            body.writeCharSequence(text, StandardCharsets.US_ASCII);
            DefaultFullHttpResponse answer =
                    new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK, body);
            answer.headers().set(HttpHeaderNames.CONTENT_TYPE, "application/json");
            answer.headers().setInt(HttpHeaderNames.CONTENT_LENGTH, body.readableBytes());
            context.writeAndFlush(answer);
        }

        /** A client that goes in the middle of an answer is nothing to write a log about. */
        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            context.close();
        }
    }
}
