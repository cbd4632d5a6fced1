import java.util.*;
import java.util.stream.*;
public class Guest { 
  static int f(int n){ return n<2?n:f(n-1)+f(n-2); }
  public static void main(String[] a) throws Exception {
    System.out.println(f(27));
    try { Object o=null; o.toString(); } catch (NullPointerException e) { System.out.println("npe"); }
    try { System.out.println(deep(0)); } catch (StackOverflowError e) { System.out.println("so"); }
    Map<String,Integer> m=new TreeMap<>(); for(int i=0;i<100000;i++) m.merge("k"+(i%97),1,Integer::sum); System.out.println(m.get("k5"));
    System.out.println(IntStream.range(0,100000).parallel().mapToLong(i->i).sum());
    Thread[] t=new Thread[8]; for(int i=0;i<8;i++){ t[i]=new Thread(()->{ List<byte[]> l=new ArrayList<>(); for(int k=0;k<200;k++) l.add(new byte[10000]); }); t[i].start(); } for(Thread x:t)x.join(); System.gc(); System.out.println("done"); }
  static int deep(int n){ return deep(n+1)+1; }
}
