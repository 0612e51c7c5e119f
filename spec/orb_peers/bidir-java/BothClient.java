// BothClient REFERENCE THREADS TIMES: a Listener over JacORB; calls the Talker, which calls back. Prints what came of it.
import Both.*;
import java.util.concurrent.atomic.AtomicInteger;
import org.omg.CORBA.ORB;
import org.omg.PortableServer.POA;

public class BothClient extends ListenerPOA {
    static final AtomicInteger heard = new AtomicInteger(), good = new AtomicInteger();

    public String heard(String what) { heard.incrementAndGet(); return "heard " + what; }

    public void pause(int milliseconds) {
        try { Thread.sleep(milliseconds); } catch (InterruptedException e) { }
    }

    public static void main(String[] args) throws Exception {
        ORB orb = Ways.orb(args);
        POA poa = Ways.poa(orb);
        final Listener me = ListenerHelper.narrow(poa.id_to_reference(poa.activate_object(new BothClient())));
        final Talker talker = TalkerHelper.narrow(orb.string_to_object(args[0]));
        final int threads = Integer.parseInt(args[1]), times = Integer.parseInt(args[2]);
        System.out.println("talk " + talker.talk(me, "one"));
        talker.keep(me);
        Thread[] all = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            all[t] = new Thread() {
                public void run() {
                    try { good.addAndGet(talker.chatter(times)); }
                    catch (org.omg.CORBA.SystemException e) { System.out.println("chatter " + e); }
                }
            };
            all[t].start();
        }
        for (Thread t : all) t.join();
        System.out.println("chatter " + good + " of " + threads * times + ", heard " + heard);
        System.out.println("provoke " + talker.provoke(50));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
