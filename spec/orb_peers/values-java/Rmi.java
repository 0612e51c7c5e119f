import java.io.Serializable;
import java.rmi.Remote;
import java.rmi.RemoteException;
import javax.rmi.CORBA.Stub;
import javax.rmi.CORBA.Tie;
import javax.rmi.CORBA.UtilDelegate;
import javax.rmi.CORBA.ValueHandler;
import org.omg.CORBA.ORB;
import org.omg.CORBA.SystemException;
import org.omg.CORBA.portable.InputStream;
import org.omg.CORBA.portable.OutputStream;

/**
 * JacORB gives values that stand in an any or a ValueBase to RMI. Its own implementation of that does not start on Java 17. For values that IDL
 * defines JacORB calls the first six methods alone; values of Java's own classes, which the others are for, do not occur in values.idl.
 * It is chosen by -Djavax.rmi.CORBA.UtilClass=Rmi.
 */
public final class Rmi implements UtilDelegate, ValueHandler {
  @Override public ValueHandler createValueHandler() { return this; }
  @Override public Class<?> loadClass(String name, String codebase, ClassLoader loader) throws ClassNotFoundException { return Class.forName(name); }
  @Override public String getCodebase(Class c) { return null; }
  @Override public boolean isLocal(Stub s) { return false; }
  @Override public void writeAbstractObject(OutputStream out, Object o) { ((org.omg.CORBA_2_3.portable.OutputStream) out).write_abstract_interface(o); }

  @Override public String getRMIRepositoryID(Class c) { return "RMI:" + c.getName() + ":0000000000000000"; }
  @Override public boolean isCustomMarshaled(Class c) { return false; }
  @Override public Serializable writeReplace(Serializable v) { return v; }
  @Override public org.omg.SendingContext.RunTime getRunTimeCodeBase() { return null; }

  private static UnsupportedOperationException none() { return new UnsupportedOperationException("values of Java's own"); }
  @Override public void writeValue(OutputStream out, Serializable v) { throw none(); }
  @Override public Serializable readValue(InputStream in, int at, Class c, String id, org.omg.SendingContext.RunTime sender) { throw none(); }
  @Override public RemoteException mapSystemException(SystemException e) { throw none(); }
  @Override public void writeAny(OutputStream out, Object o) { throw none(); }
  @Override public Object readAny(InputStream in) { throw none(); }
  @Override public void writeRemoteObject(OutputStream out, Object o) { throw none(); }
  @Override public void registerTarget(Tie tie, Remote target) { throw none(); }
  @Override public void unexportObject(Remote target) { throw none(); }
  @Override public Tie getTie(Remote target) { throw none(); }
  @Override public RemoteException wrapException(Throwable e) { throw none(); }
  @Override public Object copyObject(Object o, ORB orb) { throw none(); }
  @Override public Object[] copyObjects(Object[] o, ORB orb) { throw none(); }
}
