import java.util.*; import java.util.zip.Inflater;
public class Forget { static List<Object> keep=new ArrayList<>();
 static void upload(){ keep.add(new Inflater()); Runnable r=()->new Inflater().end(); r.run(); }
 public static void main(String[] a) throws Exception { for(int i=0;i<60;i++){ upload(); Thread.sleep(20);} } }
