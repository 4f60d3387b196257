/** Which program a failed step lacks, by what shells say of it, and what brings it. */
import { shellWord } from '../../../lib/shell-word.ts';

/** As dash, bash, busybox and `env` say it. */
const NOT_FOUND = [
  /(?:^|[\s:])([\w.+-]{1,64}): (?:command )?not found$/,
  /(?:^|[\s/])env: ['"‘]?([\w.+-]{1,64})['"’]?: No such file or directory$/,
];

/** Images of the platform, by the programs that people lack. */
const IMAGES: Readonly<Record<string, string>> = {
  node: 'node',
  npm: 'node',
  npx: 'node',
  python: 'python',
  python3: 'python',
  pip: 'python',
  pip3: 'python',
};

/** The program that these lines say is not there; the last one that is named. */
export function missingProgram(lines: readonly string[]): string | undefined {
  for (const line of lines.toReversed())
    for (const pattern of NOT_FOUND) {
      const [, program] = pattern.exec(line.trimEnd()) ?? [];
      if (program !== undefined) return program;
    }
  return undefined;
}

/** What to do about it. `command`: how `troupe` is called here. */
export function hintOnMissing(program: string, name: string, command: string): string {
  const update = `${command} update ${shellWord(name)} --image`;
  const image = IMAGES[program];
  return image === undefined
    ? `${program} is not in the container. Let the build install it, or run an image that has it: ${update} IMAGE`
    : `${program} is not in the container. The image ${image} has it: ${update} ${image}`;
}
