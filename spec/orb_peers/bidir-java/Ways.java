// JacORB with bidirectional connections.
import java.util.Properties;
import org.omg.BiDirPolicy.*;
import org.omg.CORBA.*;
import org.omg.PortableServer.*;

final class Ways {
    static ORB orb(String[] args) {
        Properties p = new Properties();
        p.put("org.omg.CORBA.ORBClass", "org.jacorb.orb.ORB");
        p.put("org.omg.CORBA.ORBSingletonClass", "org.jacorb.orb.ORBSingleton");
        p.put("org.omg.PortableInterceptor.ORBInitializerClass.bidir_init", "org.jacorb.orb.giop.BiDirConnectionInitializer");
        p.put("jacorb.log.default.verbosity", "0");
        return ORB.init(args, p);
    }

    static POA poa(ORB orb) throws Exception {
        POA root = POAHelper.narrow(orb.resolve_initial_references("RootPOA"));
        Any any = orb.create_any();
        BidirectionalPolicyValueHelper.insert(any, BOTH.value);
        Policy[] policies = {
            root.create_lifespan_policy(LifespanPolicyValue.TRANSIENT), orb.create_policy(BIDIRECTIONAL_POLICY_TYPE.value, any),
        };
        POA poa = root.create_POA("both", root.the_POAManager(), policies);
        root.the_POAManager().activate();
        return poa;
    }
}
