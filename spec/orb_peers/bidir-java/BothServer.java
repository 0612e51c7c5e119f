// A Talker over JacORB. Prints its reference, serves until its standard input ends.
import Both.*;
import org.omg.CORBA.ORB;
import org.omg.PortableServer.POA;

public class BothServer extends TalkerPOA {
    private volatile Listener kept;

    public String talk(Listener whom, String what) { return whom.heard(what); }
    public void keep(Listener whom) { kept = whom; }

    public int chatter(int times) {
        int good = 0;
        for (int i = 0; i < times; i++)
            if (kept.heard("word " + i).equals("heard word " + i)) good++;
        return good;
    }

    public String provoke(int milliseconds) {
        try {
            kept.pause(milliseconds);
            return "nothing";
        } catch (org.omg.CORBA.SystemException e) {
            return e.getClass().getSimpleName();
        }
    }

    public static void main(String[] args) throws Exception {
        ORB orb = Ways.orb(args);
        POA poa = Ways.poa(orb);
        System.out.println(orb.object_to_string(poa.id_to_reference(poa.activate_object(new BothServer()))));
        while (System.in.read() != -1) { }
        System.exit(0);
    }
}
