/** The Node.js that runs this program: whether it can, and until when its line gets security fixes. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { packageFile } from '../../lib/package-file.ts';

/** What the platform needs at least: major and minor. */
const LEAST = { major: 22, minor: 19 };

/** The last day of each line's support, as Node.js announces it. */
const SUPPORT_ENDS: Readonly<Record<number, string>> = { 22: '2027-04-30', 24: '2028-04-30', 26: '2029-04-30' };

/** A version of Node.js as the operator should know it. */
interface NodeRelease {
  readonly version: string;
  readonly isEnough: boolean;
  /** The last day on which its line gets fixes; undefined for a line that is not known here. */
  readonly supportEnds: string | undefined;
  /** Whether that day is over. */
  readonly isOver: boolean;
  /** One line: the version and its support. */
  readonly words: string;
}

/** Describes a version of Node.js, by default the one that runs. */
export function nodeRelease(version = process.versions.node, now = new Date()): NodeRelease {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const supportEnds = SUPPORT_ENDS[major];
  const isOver = supportEnds !== undefined && now.toISOString().slice(0, 10) > supportEnds;
  const support =
    supportEnds === undefined
      ? 'not a line that this Troupe is tested on'
      : isOver
        ? `without security fixes since ${supportEnds}`
        : `supported until ${supportEnds}`;
  return {
    version,
    isEnough: major > LEAST.major || (major === LEAST.major && minor >= LEAST.minor),
    supportEnds,
    isOver,
    words: `${version}, ${support}`,
  };
}

/** What to do about a Node.js that is too old. `brought`: whether one came along, and another runs. */
export function howToGetNode(brought = comesAlong()): string {
  if (brought)
    return 'bin/troupe runs the Node.js that came along, which needs libatomic (apt-get install libatomic1).';
  const least = `${LEAST.major}.${LEAST.minor}`;
  return `Install Node.js 24 or 26 (${least} at least). On Linux with glibc, npm ci in Troupe's folder brings it.`;
}

function comesAlong(): boolean {
  const name = `node-linux-${process.arch}/bin/node`;
  return ['node_modules', '..'].some((folder) => existsSync(packageFile(join(folder, name))));
}
