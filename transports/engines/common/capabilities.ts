/** Which of root's capabilities (capabilities(7)) a container keeps. */

/**
 * What sshd (SYS_CHROOT, SETUID, SETGID, KILL, AUDIT_WRITE, CHOWN for terminals) and a package manager (CHOWN,
 * DAC_OVERRIDE, FOWNER, FSETID, SETFCAP for packages with file capabilities) need, and ports below 1024. Everything
 * else is dropped.
 */
export const keptCapabilities: readonly string[] = [
  'AUDIT_WRITE',
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'NET_BIND_SERVICE',
  'SETFCAP',
  'SETGID',
  'SETUID',
  'SYS_CHROOT',
];
