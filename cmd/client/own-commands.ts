/** The commands that need a person's own machine: its files, its programs, and the logins that are kept there. */
import { Argument, type Command, Option } from 'commander';
import { DATA } from '../config/options.ts';
import { addApi, addWhoAmI } from './account-commands.ts';
import { clientCommand, listCommand, withOtherWords } from './common.ts';
import type { CopyOptions } from './copy.ts';
import type { LoginOptions } from './login.ts';
import type { ClientCommandOptions } from './session.ts';
import type { SshOptions } from './ssh-switch.ts';
import type { MapOptions } from './watch.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** Adds those that connect files, ports and programs of this machine with containers. */
export function addOwnSsh(program: Command): void {
  withOtherWords(
    clientCommand(program, 'ssh [container] [arguments...]', 'open SSH, with further arguments of ssh after --'),
    'ssh NAME -- -i FILE',
  )
    .addOption(new Option('--enable', 'let your SSH keys in').conflicts('disable'))
    .option('--disable', 'let no SSH in, and end what is open')
    .action(async (name: string | undefined, args: string[], options: SshOptions) =>
      (await import('./ssh.ts')).ssh(name, args, options),
    );
  clientCommand(program, 'cp <paths...>', 'copy files: one side is CONTAINER:PATH')
    .option('-r, --recursive', 'copy folders')
    .action(async (paths: string[], options: CopyOptions) => (await import('./copy.ts')).copy(paths, options));
  clientCommand(
    program,
    'forward <container> <here:there>',
    'lead a port of this machine to one of a container',
  ).action(async (name: string, ports: string, options: ClientCommandOptions) =>
    (await import('./ssh.ts')).forward(name, ports, options),
  );
  clientCommand(program, 'ssh-config', 'print entries for ~/.ssh/config').action(
    async (options: ClientCommandOptions) => (await import('./ssh.ts')).printSshConfig(options),
  );
}

/** Adds those that bring images of one's own to the platform. */
export function addOwnImages(program: Command): void {
  const image = program.commands.find((each) => each.name() === 'image') ?? program.command('image');
  const work = () => import('./images/images.ts');
  clientCommand(
    image,
    'push <archive> <name>',
    'send an image that `docker save` wrote, or an OCI layout in a tar file',
  )
    .summary('send the image of an archive to the registry')
    .action(async (file: string, name: string, options: ClientCommandOptions) =>
      (await work()).pushImage(file, name, options),
    );
  clientCommand(image, 'rm <name>', 'remove NAME:TAG from the registry').action(
    async (name: string, options: ClientCommandOptions) => (await work()).removeImage(name, options),
  );
}

/** Adds those for logins and for this program itself. */
export function addLoginCommands(program: Command): void {
  const work = () => import('./login.ts');
  clientCommand(program, 'login [url]', 'log in to a platform')
    .option('--user <name>', 'user name; asks for the password')
    .option('--password', 'ask for the password instead of opening a browser')
    .option('--password-stdin', 'read the password from standard input')
    .option('--token', 'take an API token, from standard input')
    .option('--ca <file>', "certificate of the platform's own authority, which alone is trusted then")
    .option(...DATA)
    .action(async (url: string | undefined, options: LoginOptions) => (await work()).logIn(url, options));
  clientCommand(program, 'logout', 'end the login and forget it').action(async (options: ClientCommandOptions) =>
    (await work()).logOut(options),
  );
  addWhoAmI(program);
  clientCommand(program, 'token', 'print the token of the login, for scripts').action(
    async (options: ClientCommandOptions) => (await work()).printToken(options),
  );
  const profile = program.command('profile').description('logins on several platforms');
  listCommand(profile, 'ls', 'list them').action(async (options: ClientCommandOptions) =>
    (await work()).listProfiles(options),
  );
  clientCommand(profile, 'use <profile>', 'make one the current one').action(
    async (name: string, options: ClientCommandOptions) => (await work()).useProfile(name, options),
  );
  clientCommand(profile, 'rm <profile>', 'delete one with its token').action(
    async (name: string, options: ClientCommandOptions) => (await work()).deleteProfile(name, options),
  );
  addApi(program);
  program
    .command('mcp')
    .description('serve your containers as tools to a program that acts for you (MCP, over standard input and output)')
    .option('--profile <name>', 'another login than the current one (default: TROUPE_PROFILE)')
    .action(async (options: ClientCommandOptions) => (await import('./mcp.ts')).serveTools(options));
  const admin = program.command('admin').description('what the administrator sees');
  const watch = () => import('./watch.ts');
  listCommand(admin, 'ps', 'the containers of all users').action(async (options: ClientCommandOptions) =>
    (await watch()).adminPs(options),
  );
  listCommand(admin, 'machines', 'the machines').action(async (options: ClientCommandOptions) =>
    (await watch()).adminMachines(options),
  );
  listCommand(admin, 'map', 'what depends on what')
    .option('--actors', 'with the actors under each service')
    .action(async (options: MapOptions) => (await watch()).adminMap(options));
  program
    .command('completion')
    .description('print a script that completes commands and names: bash, zsh or fish')
    .addArgument(new Argument('<shell>', 'your shell').choices(SHELLS))
    .action(async (shell: (typeof SHELLS)[number]) => (await import('./completion.ts')).printCompletion(shell));
}
