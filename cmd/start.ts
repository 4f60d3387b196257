/**
 * What the bundle begins with. Node keeps compiled code between runs, so that the next start does not compile it again.
 * This file shares nothing with the others: it waits for them.
 */
import module, { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';

// An `import` of it loads all streams of files.
const { mkdirSync, statSync }: typeof import('node:fs') = createRequire(import.meta.url)('node:fs');

/** Of the permissions: that a group or everybody may write. */
const OTHERS_WRITE = 0o022;

/**
 * Keeps it in `troupe/code` of the user's cache folder (XDG base directory specification). Node runs what it finds
 * there, so nobody else may write to it. Without such a folder a start compiles everything; it never fails for that.
 */
function keepCompiledCode({ XDG_CACHE_HOME, NODE_V8_COVERAGE, NODE_COMPILE_CACHE }: NodeJS.ProcessEnv): void {
  // Coverage of functions that were compiled earlier is less precise.
  if (NODE_V8_COVERAGE !== undefined || NODE_COMPILE_CACHE !== undefined) return;
  // Node 20 does not have it.
  const keep: unknown = Reflect.get(module, 'enableCompileCache');
  if (typeof keep !== 'function') return;
  try {
    const parent = XDG_CACHE_HOME || homedir();
    // Under sudo it may be another user's: no files appear there that are not theirs.
    if (!isOwn(parent)) return;
    const folder = join(parent, XDG_CACHE_HOME ? 'troupe/code' : '.cache/troupe/code');
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (isOwn(folder)) Reflect.apply(keep, module, [folder]);
  } catch {
    // There is no such folder, or it cannot be written to.
  }
}

function isOwn(folder: string): boolean {
  const { uid, mode } = statSync(folder);
  return uid === process.geteuid?.() && (mode & OTHERS_WRITE) === 0;
}

keepCompiledCode(process.env);
await import('./main.ts');
