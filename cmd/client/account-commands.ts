/** The commands for hostnames, keys, tokens, notifications and logins. */
import type { Command } from 'commander';
import type { ApiCommandOptions } from './api.ts';
import { clientCommand, count, listCommand } from './common.ts';
import type { HostnameOptions } from './hostnames.ts';
import type { AddKeyOptions, LoginKeyOptions } from './keys.ts';
import type { NotificationsOptions } from './notices.ts';
import type { ClientCommandOptions } from './session.ts';
import type { ScopeOptions, TokenOptions } from './tokens.ts';
import { addWebhookCommands } from './webhook-commands.ts';

const EXPIRES = ['--expires <time>', '30d, 90d, 365d or never', '90d'] as const;
const SCOPE = ['--scope <key:actions>', 'such as compute.containers:read,start; may be repeated', repeated] as const;
const VERIFY_SECONDS = 600;

/** Values that hold commas themselves. */
function repeated(value: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), value];
}

/** Adds them. */
export function addAccountCommands(program: Command): void {
  addHostnames(program);
  addKeys(program);
  addTokens(program);
  addNotices(program);
  addWebhookCommands(program);
}

function addHostnames(program: Command): void {
  const hostname = program.command('hostname').description('hostnames of your own that lead to containers');
  const work = () => import('./hostnames.ts');
  listCommand(hostname, 'ls', 'list them').action(async (options: ClientCommandOptions) =>
    (await work()).listHostnames(options),
  );
  const waiting = (command: Command) =>
    command
      .option('--wait', 'wait until it is verified')
      .option('--timeout <seconds>', 'how long to wait', count, VERIFY_SECONDS);
  waiting(clientCommand(hostname, 'add <hostname> [container]', 'map one, and print the records to enter'))
    .option('--port <port>', 'port of the container: 80, 443, or 8000 to 8999', count, 80)
    .action(async (domain: string, name: string | undefined, options: HostnameOptions) =>
      (await work()).addHostname(domain, name, options),
    );
  clientCommand(hostname, 'rm <hostname>', 'give one up').action(async (text: string, options: ClientCommandOptions) =>
    (await work()).removeHostname(text, options),
  );
  waiting(clientCommand(hostname, 'verify <hostname>', 'have its record looked for now')).action(
    async (text: string, options: HostnameOptions) => (await work()).verifyHostname(text, options),
  );

  const dns = program.command('dns').description('DNS providers whose records the platform makes for you');
  listCommand(dns, 'ls', 'list the connections').action(async (options: ClientCommandOptions) =>
    (await work()).listDns(options),
  );
  clientCommand(dns, 'connect', 'connect Cloudflare by an API token, from standard input').action(
    async (options: ClientCommandOptions) => (await work()).connectDns(options),
  );
  clientCommand(dns, 'refresh <connection>', 'read its zones again; by a zone of it, or its id').action(
    async (text: string, options: ClientCommandOptions) => (await work()).refreshDns(text, options),
  );
  clientCommand(dns, 'rm <connection>', 'forget its token; records stay').action(
    async (text: string, options: ClientCommandOptions) => (await work()).removeDns(text, options),
  );
}

function addKeys(program: Command): void {
  const work = () => import('./keys.ts');
  const key = program.command('key').description('SSH keys that open your containers, and your account');
  listCommand(key, 'ls', 'list them').action(async (options: ClientCommandOptions) =>
    (await work()).listSshKeys(options),
  );
  clientCommand(key, 'add [file]', 'add a public key (default: of ~/.ssh; -: standard input)')
    .option('--name <name>', 'its name (default: its comment)')
    .option('--login', 'let it log in to your account by SSH, too (soon after `troupe login`)')
    .action(async (file: string | undefined, options: AddKeyOptions) => (await work()).addKey(file, options));
  clientCommand(key, 'login <key>', 'let a key log in to your account by SSH (soon after `troupe login`)')
    .option('--off', 'no longer: it opens containers alone')
    .action(async (text: string, options: LoginKeyOptions) => (await work()).setLoginKey(text, options));
  clientCommand(key, 'rm <key>', 'delete one').action(async (text: string, options: ClientCommandOptions) =>
    (await work()).removeKey(text, options),
  );
  const security = program.command('security-key').description('security keys of your login');
  listCommand(security, 'ls', 'list them').action(async (options: ClientCommandOptions) =>
    (await work()).listSecurityKeys(options),
  );
  clientCommand(security, 'rm <key>', 'delete one; asks for the password').action(
    async (text: string, options: ClientCommandOptions) => (await work()).removeSecurityKey(text, options),
  );
}

function addTokens(program: Command): void {
  const work = () => import('./tokens.ts');
  const token = program.command('api-token').description('tokens for programs');
  listCommand(token, 'ls', 'list them').action(async (options: ClientCommandOptions) =>
    (await work()).listApiTokens(options),
  );
  clientCommand(token, 'create <name>', 'make one; it alone is printed, only now')
    .requiredOption(...SCOPE)
    .option(...EXPIRES)
    .action(async (name: string, options: ScopeOptions & TokenOptions) => (await work()).createApiToken(name, options));
  clientCommand(token, 'rm <token>', 'revoke one').action(async (text: string, options: ClientCommandOptions) =>
    (await work()).removeApiToken(text, options),
  );

  const account = program.command('service-account').description('accounts of programs, whose tokens share scopes');
  listCommand(account, 'ls', 'list them').action(async (options: ClientCommandOptions) =>
    (await work()).listAccounts(options),
  );
  clientCommand(account, 'create <name>', 'make one')
    .requiredOption(...SCOPE)
    .action(async (name: string, options: ScopeOptions) => (await work()).createAccount(name, options));
  clientCommand(account, 'scopes <account>', 'replace its scopes')
    .requiredOption(...SCOPE)
    .action(async (text: string, options: ScopeOptions) => (await work()).setAccountScopes(text, options));
  clientCommand(account, 'token <account> <name>', 'make a token of it; it alone is printed, only now')
    .option(...EXPIRES)
    .action(async (text: string, name: string, options: TokenOptions) =>
      (await work()).createAccountToken(text, name, options),
    );
  listCommand(account, 'tokens <account>', 'list its tokens').action(
    async (text: string, options: ClientCommandOptions) => (await work()).listAccountTokens(text, options),
  );
  clientCommand(account, 'rm <account>', 'delete one, and revoke its tokens').action(
    async (text: string, options: ClientCommandOptions) => (await work()).removeAccount(text, options),
  );
}

function addNotices(program: Command): void {
  const work = () => import('./notices.ts');
  listCommand(program, 'notifications', 'list notifications, the newest last')
    .option('-f, --follow', 'go on with those that come')
    .option('--unread', 'only those that are not read')
    .option('--mark-read', 'mark all as read')
    .option('--limit <n>', 'at most so many, up to 100', count, 20)
    .action(async (options: NotificationsOptions) => (await work()).showNotifications(options));
  const mute = program.command('mute').description('what you are not told of');
  listCommand(mute, 'ls', 'list it').action(async (options: ClientCommandOptions) =>
    (await work()).listOwnMutes(options),
  );
  clientCommand(mute, 'add <category> [scope]', 'mute a category, such as compute, or one scope of it').action(
    async (category: string, scope: string | undefined, options: ClientCommandOptions) =>
      (await work()).mute(category, scope, options),
  );
  clientCommand(mute, 'rm <category> [scope]', 'unmute it').action(
    async (category: string, scope: string | undefined, options: ClientCommandOptions) =>
      (await work()).unmute(category, scope, options),
  );
}

/** Adds `whoami`. */
export function addWhoAmI(program: Command): void {
  clientCommand(program, 'whoami', 'show who is logged in, and where').action(async (options: ClientCommandOptions) =>
    (await import('./who.ts')).whoAmI(options),
  );
}

/** Adds `api`. */
export function addApi(program: Command): void {
  clientCommand(program, 'api <method> <path>', 'send any request, such as GET /compute/containers')
    .option('-d, --body <json>', 'the body; - reads it from standard input')
    .option('-H, --header <line>', 'a header, such as "Accept: text/plain"; may be repeated', repeated)
    .option('--idempotency-key <key>', 'what makes the request one: sent again with its key it makes nothing twice')
    .action(async (method: string, path: string, options: ApiCommandOptions) =>
      (await import('./api.ts')).sendRequest(method, path, options),
    );
}
