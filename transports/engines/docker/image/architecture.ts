/** Whether this machine runs the programs of an image. */
import { existsSync } from 'node:fs';

/** What machines run besides their own kind. */
const ALSO: Readonly<Record<string, readonly string[]>> = { amd64: ['386'], arm64: ['arm'] };
/** How emulators are called where Linux knows them (binfmt_misc). */
const EMULATORS: Readonly<Record<string, string>> = {
  amd64: 'x86_64',
  arm64: 'aarch64',
  arm: 'arm',
  '386': 'i386',
  ppc64le: 'ppc64le',
  riscv64: 'riscv64',
  s390x: 's390x',
};

/** What is to be done with an image of one kind on a machine of another; undefined: it runs, or nobody can tell. */
export function unfitProblem(
  name: string,
  image: { readonly Os: string; readonly Architecture: string },
  machine: string,
  hasEmulator: (name: string) => boolean = (each) => existsSync(`/proc/sys/fs/binfmt_misc/qemu-${each}`),
): string | undefined {
  const { Os: os, Architecture: architecture } = image;
  const emulator = EMULATORS[architecture];
  if (architecture === machine || ALSO[machine]?.includes(architecture)) return undefined;
  if (emulator === undefined || EMULATORS[machine] === undefined || hasEmulator(emulator)) return undefined;
  return (
    `The image ${name} is for ${os}/${architecture}, and the platform runs linux/${machine}: build it for that ` +
    `(docker build --platform linux/${machine}), and push it again.`
  );
}
