/** Real parts that a machine may lack: skipped by name, or, with TROUPE_TEST_REAL=required, a failure. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

const ALSO_LOOK_IN = ['/usr/sbin', '/sbin', '/usr/local/sbin'];

/** The absolute path of a program, looked for on PATH and in the system folders; undefined when it is not installed. */
export function findProgram(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...ALSO_LOOK_IN].filter((folder) => folder !== '');
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

/**
 * What to put into a test's `skip` option: false when all programs are there, else the reason. Where CI demands real
 * parts it throws instead.
 */
export function skipWithout(...programs: string[]): string | false {
  const missing = programs.filter((name) => findProgram(name) === undefined);
  return skipUnless(missing.length === 0, `not installed: ${missing.join(', ')}`);
}

/** The same for any other condition: false when `present`, else `reason`. */
export function skipUnless(present: boolean, reason: string): string | false {
  if (present) return false;
  if (process.env.TROUPE_TEST_REAL === 'required') throw new Error(`TROUPE_TEST_REAL=required, but ${reason}`);
  return reason;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
