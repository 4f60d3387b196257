import type { MemoryCommand, MemoryEngine, MemoryProcess } from './memory-engine.ts';

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

/** As much of commands without a terminal as the conformance suite runs: cat, echo, yes, sleep, exit, a trap for the hang-up. */
export function memoryCommands(command: MemoryCommand, engine: MemoryEngine): void {
  const { words, stdin, stdout, stderr, id } = command;
  const [program, , script = ''] = words;
  if (program === 'cat') {
    stdin.on('data', (chunk: Buffer) => stdout.write(chunk)).on('end', () => command.exit(0));
    return;
  }
  if (program !== 'sh' && program !== '/bin/sh') {
    stderr.write(`sh: ${program}: not found\n`);
    command.exit(127);
    return;
  }
  let waits = false;
  for (const part of script.split(';').map((text) => text.trim())) {
    const [word, ...rest] = part.split(' ');
    if (word === 'exit') {
      command.exit(Number(rest[0]));
      return;
    }
    if (word === 'sleep') waits = true;
    else if (word === 'trap') {
      const file = /> *([^;' ]+)/.exec(part)?.[1] ?? '';
      command.onHangUp = () => void engine.files(id)?.set(file, '');
    } else if (word === 'yes') {
      waits = true;
      const flood = (): void => {
        if (stdout.destroyed) return;
        if (stdout.write('y\n'.repeat(5000))) setImmediate(flood);
        else stdout.once('drain', flood);
      };
      flood();
    } else if (word === 'echo') {
      const output = rest.at(-1) === '>&2' ? stderr : stdout;
      output.write(`${rest.filter((one) => one !== '>&2').join(' ')}\n`);
    }
  }
  if (!waits) command.exit(0);
}
