import type { MemoryEngine, MemoryProcess } from './memory-engine.ts';

/** As much of a shell as the conformance suite speaks: echo, stty size, yes, read, exit, and a trap for the hang-up that writes a file. */
export function memoryShell(process: MemoryProcess, engine: MemoryEngine): void {
  const { terminal, options, id } = process;
  let hungUp: string | undefined;
  let over = false;
  let waits = false;
  let typed = '';
  const flood = (): void => {
    if (terminal.destroyed) return;
    // In turns, so that a reader who keeps up does not hold up everybody else.
    if (terminal.write('y\r\n'.repeat(5000))) setImmediate(flood);
    else terminal.once('drain', flood);
  };
  const run = (command: string): void => {
    const [word = '', ...rest] = command.trim().split(' ');
    if (over || word === '') return;
    if (word === 'exit') {
      over = true;
      process.exit(Number(rest[0] ?? 0));
    } else if (word === 'echo') terminal.write(`${rest.join(' ').replace('$TERM', options.term)}\r\n`);
    else if (word === 'stty') terminal.write(`${process.size().rows} ${process.size().cols}\r\n`);
    else if (word === 'yes') {
      waits = true;
      flood();
    } else if (word === 'read') waits = true;
    else if (word === 'trap') hungUp = /> *([^;' ]+)/.exec(command)?.[1]?.trim();
    else terminal.write(`sh: ${word}: not found\r\n`);
  };
  terminal.once('close', () => {
    if (hungUp !== undefined && !over) engine.files(id)?.set(hungUp, '');
  });
  const [program, , script] = options.command ?? [];
  if (program === undefined || script !== undefined) {
    for (const command of (script ?? '').split(';')) run(command);
    if (program !== undefined && !over && !waits) process.exit(0);
  } else process.exit(127);
  terminal.on('data', (chunk: Buffer) => {
    typed += chunk.toString();
    const lines = typed.split('\n');
    typed = lines.pop() ?? '';
    for (const line of lines) {
      terminal.write(`${line}\r\n`);
      run(line);
    }
  });
}
