/** The commands for hostnames, keys, tokens, logins, notifications and other ways to be told. */
import type { Command } from 'commander';
import { actionsOf } from '../config/actions.ts';
import type { ApiCommandOptions } from './api.ts';
import { cacheArgument, cacheOption, clientCommand, count, each, listCommand, several } from './common.ts';
import type { ClientCommandOptions } from './session.ts';

const inNames = actionsOf(() => import('./address-names.ts'));
const inHostnames = actionsOf(() => import('./hostnames.ts'));
const inKeys = actionsOf(() => import('./keys.ts'));
const inTokens = actionsOf(() => import('./tokens.ts'));
const inNotices = actionsOf(() => import('./notices.ts'));
const inWebhooks = actionsOf(() => import('./webhooks.ts'));

const EXPIRES = ['--expires <time>', '30d, 90d, 365d or never', '90d'] as const;
const SCOPE = ['--scope <key:actions>', 'such as compute.containers:read,start; may be repeated', each] as const;
const CATEGORY = ['--category <names>', 'only these, such as compute,networking; may be repeated', several] as const;
const VERIFY_SECONDS = 600;

/** Adds them. */
export function addAccountCommands(program: Command): void {
  addHostnames(program);
  addKeys(program);
  addTokens(program);
  addNotices(program);
  addWebhooks(program);
}

function addHostnames(program: Command): void {
  const hostname = program.command('hostname').description('hostnames of your own that lead to containers');
  listCommand(hostname, 'ls', 'list them').action(inHostnames((of) => of.listHostnames));
  const waiting = (command: Command) =>
    command
      .option('--wait', 'wait until it is verified')
      .option('--timeout <seconds>', 'how long to wait', count, VERIFY_SECONDS);
  waiting(clientCommand(hostname, 'add <hostname> [container]', 'map one, and print the records to enter'))
    .option('--port <port>', 'port of the container: 80, 443, or 8000 to 8999', count, 80)
    .addOption(cacheOption())
    .action(inHostnames((of) => of.addHostname));
  clientCommand(hostname, 'cache <hostname>', 'say what gateways keep of the answers at one')
    .addArgument(cacheArgument())
    .action(inHostnames((of) => of.setHostnameCache));
  clientCommand(hostname, 'rm <hostname>', 'give one up').action(inHostnames((of) => of.removeHostname));
  waiting(clientCommand(hostname, 'verify <hostname>', 'have its record looked for now')).action(
    inHostnames((of) => of.verifyHostname),
  );

  const address = program.command('address').description('readable addresses: names of containers in the place of ids');
  listCommand(address, 'ls', 'list them, and those that you gave up, which are reserved for you').action(
    inNames((of) => of.listAddressNames),
  );

  const dns = program.command('dns').description('DNS providers whose records the platform makes for you');
  listCommand(dns, 'ls', 'list the connections').action(inHostnames((of) => of.listDns));
  clientCommand(dns, 'connect', 'connect Cloudflare by an API token, from standard input').action(
    inHostnames((of) => of.connectDns),
  );
  clientCommand(dns, 'refresh <connection>', 'read its zones again; by a zone of it, or its id').action(
    inHostnames((of) => of.refreshDns),
  );
  clientCommand(dns, 'rm <connection>', 'forget its token; records stay').action(inHostnames((of) => of.removeDns));
}

function addKeys(program: Command): void {
  const key = program.command('key').description('SSH keys that open your containers, and your account');
  listCommand(key, 'ls', 'list them').action(inKeys((of) => of.listSshKeys));
  clientCommand(key, 'add [file]', 'add a public key (default: of ~/.ssh; -: standard input)')
    .option('--name <name>', 'its name (default: its comment)')
    .option('--login', 'let it log in to your account by SSH, too (soon after `troupe login`)')
    .option('--make', 'make one in ~/.ssh first where there is none')
    .action(inKeys((of) => of.addKey));
  clientCommand(key, 'login <key>', 'let a key log in to your account by SSH (soon after `troupe login`)')
    .option('--off', 'no longer: it opens containers alone')
    .action(inKeys((of) => of.setLoginKey));
  clientCommand(key, 'rm <key>', 'delete one').action(inKeys((of) => of.removeKey));
  const security = program.command('security-key').description('security keys of your login');
  listCommand(security, 'ls', 'list them').action(inKeys((of) => of.listSecurityKeys));
  clientCommand(security, 'rm <key>', 'delete one; asks for the password').action(inKeys((of) => of.removeSecurityKey));
}

function addTokens(program: Command): void {
  const token = program.command('api-token').description('tokens for programs');
  listCommand(token, 'ls', 'list them').action(inTokens((of) => of.listApiTokens));
  clientCommand(token, 'create <name>', 'make one; it alone is printed, only now')
    .requiredOption(...SCOPE)
    .option(...EXPIRES)
    .action(inTokens((of) => of.createApiToken));
  clientCommand(token, 'rm <token>', 'revoke one').action(inTokens((of) => of.removeApiToken));

  const account = program.command('service-account').description('accounts of programs, whose tokens share scopes');
  listCommand(account, 'ls', 'list them').action(inTokens((of) => of.listAccounts));
  clientCommand(account, 'create <name>', 'make one')
    .requiredOption(...SCOPE)
    .action(inTokens((of) => of.createAccount));
  clientCommand(account, 'scopes <account>', 'replace its scopes')
    .requiredOption(...SCOPE)
    .action(inTokens((of) => of.setAccountScopes));
  clientCommand(account, 'token <account> <name>', 'make a token of it; it alone is printed, only now')
    .option(...EXPIRES)
    .action(inTokens((of) => of.createAccountToken));
  listCommand(account, 'tokens <account>', 'list its tokens').action(inTokens((of) => of.listAccountTokens));
  clientCommand(account, 'rm <account>', 'delete one, and revoke its tokens').action(
    inTokens((of) => of.removeAccount),
  );
}

function addNotices(program: Command): void {
  listCommand(program, 'notifications', 'list notifications, the newest last')
    .option('-f, --follow', 'go on with those that come')
    .option('--unread', 'only those that are not read')
    .option('--mark-read', 'mark all as read')
    .option('--limit <n>', 'at most so many, up to 100', count, 20)
    .action(inNotices((of) => of.showNotifications));
  const mute = program.command('mute').description('what you are not told of');
  listCommand(mute, 'ls', 'list it').action(inNotices((of) => of.listOwnMutes));
  clientCommand(mute, 'add <category> [scope]', 'mute a category, such as compute, or one scope of it').action(
    inNotices((of) => of.mute),
  );
  clientCommand(mute, 'rm <category> [scope]', 'unmute it').action(inNotices((of) => of.unmute));
}

function addWebhooks(program: Command): void {
  const webhook = program.command('webhook').description('addresses of your own that are sent your notifications');
  listCommand(webhook, 'ls', 'list them').action(inWebhooks((of) => of.listWebhooks));
  clientCommand(webhook, 'add <url>', 'add one; its secret alone is printed, only now')
    .option(...CATEGORY)
    .action(inWebhooks((of) => of.addWebhook));
  clientCommand(webhook, 'rm <webhook>', 'delete one').action(inWebhooks((of) => of.removeWebhook));
  clientCommand(webhook, 'enable <webhook>', 'enable one again').action(inWebhooks((of) => of.enableWebhook));
  clientCommand(webhook, 'disable <webhook>', 'disable one, and drop what waits for it').action(
    inWebhooks((of) => of.disableWebhook),
  );
  clientCommand(webhook, 'test <webhook>', 'send a test to one').action(inWebhooks((of) => of.testWebhook));
  listCommand(webhook, 'deliveries <webhook>', 'list what one answered last').action(
    inWebhooks((of) => of.listDeliveries),
  );
  clientCommand(webhook, 'rotate <webhook>', 'make a new secret; it alone is printed, only now').action(
    inWebhooks((of) => of.rotateWebhook),
  );

  const mail = program.command('mail').description('notifications by mail');
  clientCommand(mail, 'get', 'show whether, and where, you are told by mail').action(inWebhooks((of) => of.showMail));
  clientCommand(mail, 'set [address]', 'be told by mail; the address is sent a code')
    .option(...CATEGORY)
    .option('--off', 'turn mail off')
    .action(inWebhooks((of) => of.setMail));
  clientCommand(mail, 'verify <code>', 'prove the address by its code').action(inWebhooks((of) => of.verifyMail));
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
    .option('-H, --header <line>', 'a header, such as "Accept: text/plain"; may be repeated', each)
    .option('--idempotency-key <key>', 'what makes the request one: sent again with its key it makes nothing twice')
    .action(async (method: string, path: string, options: ApiCommandOptions) =>
      (await import('./api.ts')).sendRequest(method, path, options),
    );
}
