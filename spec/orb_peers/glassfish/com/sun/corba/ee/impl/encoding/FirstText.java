package com.sun.corba.ee.impl.encoding;

/**
 * Run before each call of a servant. A thread of GlassFish's ORB whose first text is an empty string keeps a buffer of no characters for it, and then fails
 * to write a char (UNKNOWN minor 2); which thread gets which call is chance.
 */
public final class FirstText implements Runnable {
  @Override
  public void run() {
    CodeSetConversion.impl().getCTBConverter(OSFCodeSetRegistry.UTF_8, false, false).convert("x");
    CodeSetConversion.impl().getCTBConverter(OSFCodeSetRegistry.ISO_8859_1, false, false).convert("x");
  }
}
