import java.nio.ByteBuffer; import java.util.*;
public class Hold { static List<Object> keep=new ArrayList<>();
 public static void main(String[] a) throws Exception { for(int i=0;i<8;i++) keep.add(ByteBuffer.allocateDirect(1<<20)); System.out.println("ready"); System.in.read(); } }
