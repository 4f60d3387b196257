/** The command line of those who logged in by SSH: what of `troupe` needs no machine of the person's own. */
import { Command, Option } from 'commander';
import { version } from '../../config/program.ts';
import { addAccountCommands, addApi, addWhoAmI } from '../account-commands.ts';
import { clientCommand, nameHelp } from '../common.ts';
import { addContainerCommands } from '../container-commands.ts';
import { addGit, addReleases } from '../deploy-commands.ts';
import { ClientFailure } from '../failure.ts';
import type { CommandPlace } from '../place.ts';
import type { SshOptions } from '../ssh-switch.ts';

/** What `troupe` has besides, and what to do instead. */
const NOT_HERE: Readonly<Record<string, string>> = {
  deploy: 'Apps come by git: `git push ssh://HOST:PORT/NAME`.',
  cp: 'Files go by scp, to a container with SSH: `scp FILE <container id>@HOST:PATH`.',
  forward: 'Ports are led by your ssh, to a container with SSH: `ssh -L 8080:localhost:80 <container id>@HOST`.',
  'ssh-config': 'It writes entries for a file of your machine.',
  login: 'Your key is your login here.',
  logout: 'Your key is your login here: `key login NAME --off` takes that from it.',
  token: 'The session of this login stays here. `troupe api-token create` on your machine makes a token.',
  profile: 'There is one login here, that of your key.',
  mcp: 'It serves a program on your machine; the platform serves tools at /mcp.',
  admin: 'A key is no login of an administrator.',
  completion: 'It completes words in the shell of your machine.',
};

/** Options that are of no use here: one is refused, the other would be. */
const HIDDEN = new Set(['--profile', '--grep']);

/** Makes it for one run. It never ends the process: it throws CommanderError, and with `json` leaves it to be said. */
export function accountProgram(place: CommandPlace, { json }: { readonly json: boolean }): Command {
  const { stdout, stderr } = place;
  const width = () => (stdout.isTTY ? stdout.columns : undefined) ?? 80;
  const program = new Command('troupe')
    .description('Your containers, by SSH. Without a command, at a terminal: a menu.')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void (json || stderr.write(text)),
      outputError: (text, write) => write(text.replace(/^error: /, 'troupe: ')),
      getOutHelpWidth: width,
      getErrHelpWidth: width,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .showHelpAfterError('(help shows what there is)');
  program.hook('preAction', (_program, action) => {
    action.setOptionValue('place', place);
  });
  addContainerCommands(program.commandsGroup('Your containers:'), addSwitch);
  addReleases(program.commandsGroup('Your apps:'));
  addGit(program);
  addAccountCommands(program.commandsGroup('What is yours:'));
  addWhoAmI(program);
  addApi(program);
  program
    .command('version')
    .description('print the version of the platform')
    .action(() => void stdout.write(`${version}\n`));
  for (const [name, instead] of Object.entries(NOT_HERE)) {
    program
      .command(`${name} [words...]`, { hidden: true })
      .helpOption(false)
      .allowUnknownOption()
      .action(() => {
        throw new ClientFailure('usage', `There is no \`${name}\` by SSH. ${instead}`);
      });
  }
  hideOptions(program);
  nameHelp(program, '');
  return program;
}

function addSwitch(program: Command): void {
  clientCommand(program, 'ssh [container]', 'let SSH into a container, or no longer')
    .addOption(new Option('--enable', 'let your SSH keys in').conflicts('disable'))
    .option('--disable', 'let no SSH in, and end what is open')
    .action(async (name: string | undefined, options: SshOptions) =>
      (await import('../ssh-switch.ts')).switchSshOf(name, options),
    );
}

function hideOptions(command: Command): void {
  for (const option of command.options) if (option.long !== undefined && HIDDEN.has(option.long)) option.hidden = true;
  for (const each of command.commands) hideOptions(each);
}
