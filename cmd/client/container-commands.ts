/** The commands for containers, their variables and their secrets. */
import { Argument, type Command, Option } from 'commander';
import { actionsOf } from '../config/actions.ts';
import {
  cacheArgument,
  cacheOption,
  clientCommand,
  count,
  each,
  gigabytes,
  listCommand,
  megabytes,
  several,
  withOtherWords,
} from './common.ts';
import type { LogsOptions } from './logs.ts';
import type { RunOptions } from './run.ts';
import type { ClientCommandOptions } from './session.ts';
import type { ShellOptions } from './shell.ts';
import type { UpdateOptions } from './update.ts';

const inContainers = actionsOf(() => import('./containers.ts'));
const inEnv = actionsOf(() => import('./env.ts'));
const inPorts = actionsOf(() => import('./ports.ts'));

const WAIT_SECONDS = 300;
const ACCESS =
  'who gets through at ports with /https: public (everybody), password (you type it), mine (you alone, by the console)';
const timeout = ['--timeout <seconds>', 'how long to wait', count, WAIT_SECONDS] as const;

/** Adds them; `addSsh` adds those for SSH, which are others by SSH itself. */
export function addContainerCommands(program: Command, addSsh: (program: Command) => void): void {
  listCommand(program, 'ps', 'list your containers')
    .option('-w, --wide', 'also when each expires, and its readable address')
    .addOption(new Option('-a, --all', 'all of them, as always').hideHelp())
    .action(inContainers((of) => of.listOwn));
  clientCommand(program, 'show [container]', 'show one container: status, ports, paths, hostnames, SSH').action(
    inContainers((of) => of.showOne),
  );
  addRun(program);
  addUpdate(program);
  addEnv(program);
  addPower(program);
  addInside(program);
  addSsh(program);
  addPorts(program);
  clientCommand(program, 'top', 'show what your containers use, live').action(async (options: ClientCommandOptions) =>
    (await import('./watch.ts')).top(options),
  );
}

function addRun(program: Command): void {
  clientCommand(
    program,
    'run [name] [command...]',
    'make a container, and wait until it runs; -- leads to its command: run web -- node app.js',
  )
    .option('--image <image>', 'an image of `troupe image ls`, such as node or postgres-17 (default: Debian)')
    .option('--size <size>', 'nano, micro, mini, tiny, small or medium (default: nano)')
    .option('--memory <size>', 'such as 512M or 2G (default: 512M)', megabytes)
    .option('--storage <size>', 'such as 5G (default: 5G)', gigabytes)
    .option('--key <key>', 'an SSH key of yours; may be repeated (default: all)', several)
    .option('-p, --port <outside:inside>', 'open a port, such as 80:8080 or 443:8080/https; may be repeated', several)
    .addOption(new Option('--access <who>', ACCESS).choices(['public', 'password', 'mine']))
    .addOption(cacheOption())
    .option('--mount <path>', 'a path whose data is kept, or "none"; may be repeated (default: /root)', several)
    .option('-e, --env <name=value>', 'a variable; may be repeated', each)
    .option('--env-file <file>', 'variables of a file such as .env (-: standard input)')
    .option('--secret <name>', 'a secret, which is typed, or read of standard input')
    .addOption(
      new Option('--restart <when>', 'what follows when it ends by itself').choices(['always', 'on-failure', 'no']),
    )
    .option('--stop-grace <seconds>', 'how long it may take to stop (default: 10)', count)
    .option('--working-dir <path>', 'the folder where its program begins (default: as the image says)')
    .option('--entrypoint <word>', 'runs in the place of the ENTRYPOINT of an image of yours; once for each word', each)
    .option('--health <check>', 'how it is known to be well: http:8080/path, tcp:5432 or none')
    .option('--health-command <command>', 'a command line that ends with 0 when it is well')
    .option('--health-grace <seconds>', 'how long the first good answer may take (default: 60)', count)
    .addOption(new Option('--pull <policy>', 'when the image is pulled').choices(['always', 'missing']))
    .option('--network <network>', 'a private network of your containers, which is made when it is first named')
    .option('--alias <alias>', 'the name by which the other containers in it find this one')
    .option(
      '--expires <time>',
      'when it is stopped; a day later it is deleted with its files: 2h, 7d, or 2030-01-31T12:00:00Z',
    )
    .option('--address <name>', 'a readable address: NAME.compute.<domain> leads to it, too')
    .option('--egress <networks>', 'what it may reach: any, none, or networks such as 203.0.113.0/24,198.51.100.7')
    .option('--overlap', 'another image begins beside it although it has kept paths: two write to them meanwhile')
    .option('--release <command>', 'runs once in each new image before its first start, such as "npm run migrate"')
    .option('--ssh', 'let your SSH keys in')
    .option('--shell', 'open a shell in it')
    .option('--same-name', 'also if you have a container of that name')
    .addOption(new Option('--wait', 'wait until it runs, as always').default(true).hideHelp())
    .option('--no-wait', 'do not wait until it runs')
    .option(...timeout)
    .action(async (name: string | undefined, command: string[], options: RunOptions) =>
      (await import('./run.ts')).runContainer(name, command, options),
    );
}

function addUpdate(program: Command): void {
  clientCommand(
    program,
    'update <container> [command...]',
    'change a container, or behind -- what it runs, and wait until it runs with the change',
  )
    .option('--no-command', 'run what the image says')
    .option('--working-dir <path>', 'the folder where its program begins')
    .option('--no-working-dir', 'it begins where the image says')
    .option('--entrypoint <word>', 'runs in the place of the ENTRYPOINT of an image of yours; once for each word', each)
    .option('--no-entrypoint', 'the ENTRYPOINT of the image runs')
    .option('--image <image>', 'another image, which is pulled first (`default`: Debian)')
    .option('--revision <number>', 'image and settings of `troupe revisions` again, or `previous`: those of before')
    .option('--secrets', 'with --revision: secrets get the values of then, too')
    .option('--size <size>', 'nano, micro, mini, tiny, small or medium')
    .option('--memory <size>', 'such as 512M or 2G', megabytes)
    .option('--storage <size>', 'such as 5G', gigabytes)
    .option('--key <key>', 'the SSH keys that are let in, instead of those that are; may be repeated', several)
    .addOption(new Option('--pull <policy>', 'when the image is pulled').choices(['always', 'missing']))
    .addOption(
      new Option('--restart <when>', 'what follows when it ends by itself').choices(['always', 'on-failure', 'no']),
    )
    .option('--health <check>', 'how it is known to be well: http:8080/path, tcp:5432 or none')
    .option('--health-command <command>', 'a command line that ends with 0 when it is well')
    .option('--health-grace <seconds>', 'how long the first good answer may take (default: 60)', count)
    .option('--stop-grace <seconds>', 'how long it may take to stop', count)
    .option('--name <name>', 'another name')
    .option('--same-name', 'also if another container of yours has that name')
    .option('--network <network>', 'the private network that it is in from then on')
    .option('--no-network', 'it leaves its private network')
    .option('--alias <alias>', 'the name by which the other containers in the network find it')
    .option('--no-alias', 'it has no name there')
    .option(
      '--expires <time>',
      'when it is stopped; a day later it is deleted with its files: 2h, 7d, a time, or never',
    )
    .option('--address <name>', 'its readable address, NAME.compute.<domain>; none: the one by its id alone')
    .option('--egress <networks>', 'what it may reach from then on: any, none, or networks such as 203.0.113.0/24')
    .option('--overlap', 'another image begins beside it although it has kept paths: two write to them meanwhile')
    .option('--no-overlap', 'with kept paths, it is ended before another image begins, as without --overlap')
    .option('--release <command>', 'runs once in each new image before that gets traffic; "": nothing does any more')
    .option('--discard', 'although a restart loses files outside the kept paths, where it does')
    .addOption(new Option('--wait', 'wait until it runs, as always').default(true).hideHelp())
    .option('--no-wait', 'do not wait until it runs')
    .option(...timeout)
    .action(async (name: string, command: string[], options: UpdateOptions) =>
      (await import('./update.ts')).updateContainer(name, command, options),
    );
  listCommand(program, 'revisions [container]', 'list what a container ran').action(
    async (name: string | undefined, options: ClientCommandOptions) =>
      (await import('./revisions.ts')).listRevisions(name, options),
  );
}

function addEnv(program: Command): void {
  const env = program
    .command('env')
    .description('variables and secrets of a container; a change restarts one that runs, and is waited for');
  listCommand(env, 'ls [container]', 'list them; secrets by name').action(inEnv((of) => of.listEnv));
  const changing = (words: string, summary: string) =>
    clientCommand(env, words, summary)
      .addOption(new Option('--wait', 'wait until it runs with them, as always').default(true).hideHelp())
      .option('--no-wait', 'do not wait until it runs with them')
      .option(...timeout);
  changing('set <container> [name=value...]', 'set variables')
    .option('-f, --file <file>', 'those of a file such as .env (-: standard input)')
    .action(inEnv((of) => of.setEnv));
  changing('secret <container> [name]', 'set a secret, which is typed, or read of standard input')
    .option('-f, --file <file>', 'all of a file such as .env (-: standard input)')
    .action(inEnv((of) => of.setSecret));
  changing('rm <container> <names...>', 'remove variables and secrets').action(inEnv((of) => of.removeEnv));
}

function addPower(program: Command): void {
  const power = (verb: string, summary: string) =>
    clientCommand(program, `${verb} [containers...]`, summary)
      .option('--wait', 'wait until it is done')
      .option(...timeout);
  power('start', 'start containers')
    .option('--discard', 'begin with empty folders if the data is gone')
    .action(inContainers((of) => of.startAll));
  power('stop', 'stop containers').action(inContainers((of) => of.stopAll));
  power('restart', 'stop containers and start them').action(inContainers((of) => of.restartAll));
  clientCommand(program, 'rm <containers...>', 'delete containers with their data')
    .option('-y, --yes', 'do not ask')
    .action(inContainers((of) => of.removeAll));
}

function addInside(program: Command): void {
  clientCommand(program, 'logs [container]', 'print what a container prints')
    .option('-f, --follow', 'go on until it stops; a lost connection is made up for')
    .option('--tail <lines>', 'begin with so many of the newest lines (default: 100)', count)
    .option('--since <time>', 'only what is not older: 15m, 2h, or a time')
    .option('--until <time>', 'only what is older than this, without -f')
    .addOption(new Option('--stream <output>', 'only what was written there, without -f').choices(['stdout', 'stderr']))
    .option('--stamps', 'with the time of each line')
    .option('--grep <pattern>', 'only lines that fit a regular expression')
    .action(async (name: string | undefined, options: LogsOptions) =>
      (await import('./logs.ts')).showLogs(name, options),
    );
  clientCommand(program, 'shell [container]', 'open a shell, which comes back after a lost connection; ~. leaves it')
    .option('--session <id>', 'return to a shell that was left')
    .action(async (name: string | undefined, options: ShellOptions) =>
      (await import('./shell.ts')).shell(name, options),
    );
  withOtherWords(
    clientCommand(program, 'exec <container> [command...]', 'run a command, and end with its exit code'),
    'exec NAME -- ls -l',
  ).action(async (name: string, command: string[], options: ClientCommandOptions) =>
    (await import('./exec.ts')).exec(name, command, options),
  );
}

function addPorts(program: Command): void {
  const port = program.command('port').description('open ports of a container to the outside, list and close them');
  listCommand(port, 'ls [container]', 'list them').action(inPorts((of) => of.listPorts));
  clientCommand(
    port,
    'add <container> <outside:inside>',
    'open port 80, 443, or 8000 to 8999, such as 80:8080; with /https, as 443:8080/https, the platform does HTTPS',
  )
    .addOption(
      new Option(
        '--access <who>',
        'who gets through, with /https: public (everybody), password (you type it), mine (you alone, by the console)',
      ).choices(['public', 'password', 'mine']),
    )
    .addOption(cacheOption())
    .action(inPorts((of) => of.addPort));
  clientCommand(port, 'cache <container> <outside>', 'say what gateways keep of the answers at one')
    .addArgument(cacheArgument())
    .action(inPorts((of) => of.setPortCache));
  clientCommand(port, 'rm <container> <outside>', 'close one').action(inPorts((of) => of.removePort));
  clientCommand(program, 'open [container]', 'open the page of a container in the browser').action(
    inPorts((of) => of.openPage),
  );

  const mount = program.command('mount').description('the paths of a container whose data is kept');
  listCommand(mount, 'ls [container]', 'list them').action(inPorts((of) => of.listMounts));
  clientCommand(mount, 'set <container> <paths...>', 'replace them; a container that runs is restarted')
    .option('--discard', 'although files outside of them are lost')
    .action(inPorts((of) => of.setMounts));

  const image = program.command('image').description('images that containers can be made from');
  listCommand(image, 'ls', 'list them, at a terminal with how much each of yours holds, and what it holds alone')
    .option('-w, --wide', 'with that also where it is no terminal')
    .action(inContainers((of) => of.listOwnImages));
  clientCommand(program, 'pull-policy', 'whether each start pulls the image, or only when it is missing')
    .argument('<container>')
    .addArgument(new Argument('<policy>', 'when').choices(['always', 'missing']))
    .action(inPorts((of) => of.setPull));
}
