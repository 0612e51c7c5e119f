package org.omg.CORBA.portable;

/** JacORB's compiler names it in all stubs, for calls that stay in one process; GlassFish's ORB has no such class and makes no object of it. */
public abstract class ServantObjectExt extends ServantObject {
  public abstract void normalCompletion();
  public abstract void exceptionalCompletion(Throwable why);
}
