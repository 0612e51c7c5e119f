package org.glassfish.gmbal;

import java.lang.reflect.Method;
import javax.management.ObjectName;

/**
 * Stands before the class of this name that GlassFish's ORB brings, which defines classes in a way that Java 17 forbids, so that ORB.init fails. It is
 * about objects to watch the ORB by: here there are none.
 */
public final class ManagedObjectManagerFactory {
  public static Method getMethod(Class<?> type, String name, Class<?>... parameters) {
    try { return type.getDeclaredMethod(name, parameters); } catch (NoSuchMethodException e) { throw new IllegalArgumentException(e); }
  }

  public static ManagedObjectManager createStandalone(String domain) { return createNOOP(); }
  public static ManagedObjectManager createFederated(ObjectName root) { return createNOOP(); }
  public static ManagedObjectManager createNOOP() { return ManagedObjectManagerNOPImpl.self; }
}
