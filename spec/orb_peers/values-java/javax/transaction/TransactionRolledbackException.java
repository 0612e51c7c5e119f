package javax.transaction;

/** Java has it no more since version 11; what JacORB brings for values (javax.rmi) won't start without. */
public class TransactionRolledbackException extends java.rmi.RemoteException {
  private static final long serialVersionUID = 1L;
}
