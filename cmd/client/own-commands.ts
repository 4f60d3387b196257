/** The commands that need a person's own machine: its files, its programs, and the logins that are kept there. */
import { Argument, type Command, Option } from 'commander';
import { actionsOf } from '../config/actions.ts';
import { DATA } from '../config/options.ts';
import { addApi, addWhoAmI } from './account-commands.ts';
import { cacheOption, clientCommand, count, gigabytes, listCommand, megabytes, withOtherWords } from './common.ts';
import type { CopyOptions } from './copy.ts';
import type { DeployOptions } from './deploy/deploy.ts';
import type { ClientCommandOptions } from './session.ts';

const inSsh = actionsOf(() => import('./ssh.ts'));
const inImages = actionsOf(() => import('./images/images.ts'));
const inCatalog = actionsOf(() => import('./images/catalog.ts'));
const inLogin = actionsOf(() => import('./login.ts'));
const inWatch = actionsOf(() => import('./watch.ts'));

const WAIT_SECONDS = 300;
const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** Adds those that connect files, ports and programs of this machine with containers. */
export function addOwnSsh(program: Command): void {
  withOtherWords(
    clientCommand(program, 'ssh [container] [arguments...]', 'open SSH, with further arguments of ssh after --'),
    'ssh NAME -- -i FILE',
  )
    .addOption(new Option('--enable', 'let your SSH keys in').conflicts('disable'))
    .option('--disable', 'let no SSH in, and end what is open')
    .action(inSsh((of) => of.ssh));
  clientCommand(program, 'cp <paths...>', 'copy files: one side is CONTAINER:PATH')
    .option('-r, --recursive', 'copy folders')
    .action(async (paths: string[], options: CopyOptions) => (await import('./copy.ts')).copy(paths, options));
  clientCommand(
    program,
    'forward <container> <here:there>',
    'lead a port of this machine to one of a container',
  ).action(inSsh((of) => of.forward));
  clientCommand(program, 'ssh-config', 'print entries for ~/.ssh/config').action(inSsh((of) => of.printSshConfig));
}

/** Adds those that bring images of one's own to the platform. */
export function addOwnImages(program: Command): void {
  const image = program.commands.find((each) => each.name() === 'image') ?? program.command('image');
  clientCommand(
    image,
    'push <archive> <name>',
    'send an image that `docker save` wrote, or an OCI layout in a tar file',
  )
    .summary('send the image of an archive to the registry')
    .action(inImages((of) => of.pushImage));
  clientCommand(
    image,
    'import <source> [name]',
    'copy an image of another registry, such as nginx:1.27 (default name: the same without owner)',
  )
    .summary('copy an image of another registry')
    .option(
      '--username <name>',
      'your name at the other registry; the password is typed, or piped in (default: as `docker login` kept it)',
    )
    .action(inImages((of) => of.importImage));
  clientCommand(
    image,
    'catalog [images...]',
    "build the platform's own images on this machine, for a cluster, and send them to a registry",
  )
    .summary("build the platform's own images, and send them to a registry")
    .option(
      '--to <place>',
      "where they go, such as registry.example.com/library/ (default: library of the platform's registry)",
    )
    .option(
      '--username <name>',
      'your name at the registry of --to; the password is typed, or piped in (default: as `docker login` kept it)',
    )
    .option('--again', 'also those that are there, with the packages of today')
    .action(inCatalog((of) => of.sendCatalog));
  clientCommand(image, 'rm <name>', 'remove NAME:TAG from the registry').action(inImages((of) => of.removeImage));
}

/** Adds the one that brings a folder into a container. */
export function addDeploy(program: Command): void {
  clientCommand(program, 'deploy [folder]', 'bring a folder into a container, build it there, and run it')
    .option('--name <name>', 'the container, which is made if it is not there (default: the name of the folder)')
    .option('--start <command>', 'starts the app, which listens on $PORT (default: as package.json or Procfile says)')
    .option('--build <command>', 'runs before, such as "npm ci" (default: as the files say; "": nothing)')
    .option('--release <command>', 'runs once before the switch, such as "npm run migrate" (default: as Procfile says)')
    .option('--port <port>', 'where the app listens (default: PORT of the container, else 8080)', count)
    .option('--health <check>', 'a path that answers when it is well, tcp or none (default: /)')
    .option('--grace <seconds>', 'how long it may take to be well (default: 30)', count)
    .option('--image <image>', 'what a new container is made from (default: as the files say)')
    .option('--size <size>', 'nano, micro, mini, tiny, small or medium, of a new container')
    .option('--memory <size>', 'such as 512M or 2G, of a new container', megabytes)
    .option('--storage <size>', 'such as 5G, of a new container', gigabytes)
    .option('--address <name>', 'its readable address: NAME.compute.<domain> leads to the app, too')
    .option('--egress <networks>', 'what it may reach, as is its build: any, none, or networks such as 203.0.113.0/24')
    .addOption(
      new Option(
        '--access <who>',
        'who gets through at the ports that it opens: password, mine, or public (default)',
      ).choices(['public', 'password', 'mine']),
    )
    .addOption(cacheOption())
    .option('--note <text>', 'what `troupe releases` says of it')
    .option('--with-secrets', 'take along what looks like a secret, such as .env and private keys')
    .option('--timeout <seconds>', 'how long to wait for the container', count, WAIT_SECONDS)
    .action(async (folder: string | undefined, options: DeployOptions) =>
      (await import('./deploy/deploy.ts')).deploy(folder, options),
    );
}

/** Adds those for logins and for this program itself. */
export function addLoginCommands(program: Command): void {
  clientCommand(program, 'login [url]', 'log in to a platform')
    .option('--user <name>', 'user name; asks for the password')
    .option('--password', 'ask for the password instead of opening a browser')
    .option('--password-stdin', 'read the password from standard input')
    .option('--token', 'take an API token, from standard input')
    .option('--ca <file>', "certificate of the platform's own authority, which alone is trusted then")
    .option(...DATA)
    .action(inLogin((of) => of.logIn));
  clientCommand(program, 'logout', 'end the login and forget it').action(inLogin((of) => of.logOut));
  addWhoAmI(program);
  clientCommand(program, 'token', 'print the token of the login, for scripts').action(inLogin((of) => of.printToken));
  const profile = program.command('profile').description('logins on several platforms');
  listCommand(profile, 'ls', 'list them').action(inLogin((of) => of.listProfiles));
  clientCommand(profile, 'use <profile>', 'make one the current one').action(inLogin((of) => of.useProfile));
  clientCommand(profile, 'rm <profile>', 'delete one with its token').action(inLogin((of) => of.deleteProfile));
  addApi(program);
  program
    .command('mcp')
    .description('serve your containers as tools to a program that acts for you (MCP, over standard input and output)')
    .option('--profile <name>', 'another login than the current one (default: TROUPE_PROFILE)')
    .action(async (options: ClientCommandOptions) => (await import('./mcp/command.ts')).serveTools(options));
  const admin = program.command('admin').description('what the administrator sees');
  listCommand(admin, 'ps', 'the containers of all users').action(inWatch((of) => of.adminPs));
  listCommand(admin, 'machines', 'the machines').action(inWatch((of) => of.adminMachines));
  listCommand(admin, 'map', 'what depends on what')
    .option('--actors', 'with the actors under each service')
    .action(inWatch((of) => of.adminMap));
  program
    .command('completion')
    .description('print a script that completes commands and names: bash, zsh or fish')
    .addArgument(new Argument('<shell>', 'your shell').choices(SHELLS))
    .action(async (shell: (typeof SHELLS)[number]) => (await import('./completion.ts')).printCompletion(shell));
}
