/** The script that a deployment runs in its container. */
import { readFileSync } from 'node:fs';
import { packageFile } from '../../lib/package-file.ts';

let text: string | undefined;

/** Its text: deploy/release/release.sh of this version. */
export function releaseScript(): string {
  text ??= readFileSync(packageFile('deploy/release/release.sh'), 'utf8');
  return text;
}
