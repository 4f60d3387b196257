/** How each command of people is tried, in an order in which each finds what it needs. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { z } from 'zod';
import * as tokens from '../../../proto/auth/api-tokens.ts';
import { session } from '../../../proto/auth/endpoints.ts';
import { listKeys } from '../../../proto/auth/security-keys.ts';
import * as compute from '../../../proto/compute/endpoints.ts';
import { listAllContainers, listImages } from '../../../proto/compute/images.ts';
import { listAddressNames } from '../../../proto/compute/name-listing.ts';
import { listRevisions } from '../../../proto/compute/revisions.ts';
import * as settings from '../../../proto/compute/settings.ts';
import { getSettings } from '../../../proto/compute/workload.ts';
import * as monitor from '../../../proto/monitor/endpoints.ts';
import * as network from '../../../proto/network/endpoints.ts';
import * as notify from '../../../proto/notify/endpoints.ts';
import * as mail from '../../../proto/notify/mail.ts';
import * as webhooks from '../../../proto/notify/webhooks.ts';
import { generateKeyPair } from '../../../transports/ssh/keys.ts';
import { projectRoot } from '../project.ts';
import { until } from '../until.ts';

/** What the commands are tried on. */
export interface CommandWorld {
  /** Of the platform; it has a file `note`. */
  readonly data: string;
  readonly password: string;
  /** The private key of the container `box`. */
  readonly keyFile: string;
  readonly hookUrl: string;
  /** How many webhooks have come. */
  hooks(): number;
  /** The newest code that was sent by mail; '' before there is one. */
  mailCode(): string;
}

/** A command, and what it has to do. With `heads` and `json` it runs twice. */
export interface CommandStep {
  readonly words: readonly string[] | ((world: CommandWorld) => readonly string[]);
  /** Its exit code; 0. */
  readonly code?: number;
  readonly input?: (world: CommandWorld) => string;
  /** What its table has, off a terminal. */
  readonly heads?: string;
  /** The shape of what `--json` prints: that of the endpoint, or of an error. */
  readonly json?: z.ZodType | undefined;
  /** `json` is of each line. */
  readonly isLines?: boolean;
  readonly says?: RegExp;
  /** What it prints is another program's. */
  readonly isForeign?: boolean;
  /** Waited for before it. */
  readonly first?: (world: CommandWorld) => Promise<unknown>;
}

/** The words of a step. */
export function wordsOf({ words }: CommandStep, world: CommandWorld): readonly string[] {
  return typeof words === 'function' ? words(world) : words;
}

/** As it is typed, without quotes. */
const typed = (text: string): string[] => text.split(' ');

const list = (text: string, heads: string, json: z.ZodType | undefined): CommandStep => {
  assert.ok(json !== undefined, text);
  return { words: typed(text), heads, json };
};
const deed = (text: string, json: z.ZodType | undefined, more: Partial<CommandStep> = {}): CommandStep => {
  assert.ok(json !== undefined, text);
  return { words: typed(text), json, ...more };
};
const said = (text: string, says: RegExp, more: Partial<CommandStep> = {}): CommandStep => ({
  words: typed(text),
  says,
  ...more,
});

const failure = (code: string) =>
  z.strictObject({
    error: z.string(),
    code: z.literal(code),
    fields: z.array(z.unknown()).optional(),
    request_id: z.string().optional(),
    candidates: z.array(z.string()).optional(),
  });
const id = z.strictObject({ id: z.string() });
const done = z.strictObject({ done: z.array(z.strictObject({ id: z.string(), name: z.string() })).length(1) });
const logLine = z.strictObject({ stamp: z.string(), text: z.string() });

/** All of them. */
export function commandSteps(): CommandStep[] {
  return [...login(), ...containers(), ...inside(), ...outside(), ...keys(), ...notices(), ...ends()];
}

function login(): CommandStep[] {
  const password = ({ password }: CommandWorld) => `${password}\n`;
  return [
    said('ps', /You are not logged in/, { code: 3 }),
    deed('ps', failure('login'), { code: 3 }),
    {
      words: ({ data }) => ['login', '--data', data, '--user', 'admin', '--password-stdin'],
      input: password,
      json: z.strictObject({ profile: z.literal('default'), url: z.url(), username: z.literal('admin') }),
    },
    { words: ({ data }) => ['login', '--data', data], code: 2, json: failure('usage') },
    deed('whoami', session.reply),
    deed('token', z.strictObject({ token: z.string() })),
    list(
      'profile ls',
      'CURRENT,PLATFORM,USER,NAME',
      z.array(z.looseObject({ name: z.string(), current: z.boolean() })),
    ),
    deed('profile use default', z.looseObject({ profile: z.literal('default') })),
    deed('profile rm nothing', failure('usage'), { code: 2 }),
    said('version', /^\d+\.\d+\.\d+\n$/),
    said('completion zsh', /#compdef troupe/),
    said('completion tcsh', /Allowed choices are bash, zsh, fish/, { code: 2 }),
    said('mcp', /^$/, { input: () => '' }),
    said('api GET /compute/images', /^\[\{"name":/),
    deed('api GET /compute/nothing', failure('not_found'), { code: 5 }),
  ];
}

function containers(): CommandStep[] {
  return [
    list('ps', 'NAME,STATUS,SIZE,MEMORY,DISK,CREATED,ID', compute.listContainers.reply),
    said('ps --columns nothing', /The columns are name, status/, { code: 2 }),
    deed('ps --nothing', failure('usage'), { code: 2 }),
    deed('show box', compute.getContainer.reply),
    said('show box', /^name\tbox\nid\t/),
    deed('show nothing', failure('missing'), { code: 5 }),
    deed('run boxes --size nano', compute.createContainer.reply),
    deed('show bo', failure('usage').required({ candidates: true }), { code: 2 }),
    said('show', /Name a container: box, boxes\./, { code: 2 }),
    said('run x --memory lots', /It must be a number, or one with M or G\.\n\(troupe run --help/, { code: 2 }),
    said('run x --memory 99G', /^troupe: memory_mb must be at most 65536\.\n$/, { code: 2 }),
    deed('update boxes --memory 640M --size micro --storage 6G', settings.updateContainer.reply),
    said('update boxes --memory 640M', /^boxes was so already: nothing is changed\.\n$/),
    said('update boxes --name crates', /^Changed crates: the name \(was boxes\)\. It was not restarted\.\n$/),
    said('update crates --name boxes --pull always', /the name \(was crates\), when the image is pulled\./),
    deed('update boxes --pull missing --restart always --stop-grace 10', settings.updateContainer.reply),
    said('update boxes --working-dir /root', /Changed boxes: the folder where it begins \(\/root\)\. It was restarted/),
    said('update boxes --no-working-dir', /the folder where it begins \(as the image says\)\. It was restarted/),
    said('update boxes --entrypoint /bin/sh --entrypoint -c', /entrypoint.*platform/, { code: 2 }),
    said('update boxes --network shop --alias db', /the network \(shop\), the name in the network \(db\)\. It was not/),
    said('show boxes', /\nnetwork\tshop, as db\n/),
    said('update box --network shop --alias db', /In the network shop, "db" is the container boxes \(/, { code: 6 }),
    deed('update boxes --no-alias', settings.updateContainer.reply),
    said('update boxes --no-network', /the network \(none\)\. It was not restarted\.\n$/),
    said('update box --expires 2h', /^Changed box: when it expires \(20.*Z\)\. It was not restarted\.\n$/),
    said('show box', /\nexpires\t20.*Z\n/),
    said('update box --expires never', /^Changed box: when it expires \(never\)\./),
    said(
      'update box --expires soon',
      /^troupe: --expires soon is not understood: give a number with s, m, h or d, such as 2h/,
      {
        code: 2,
      },
    ),
    said('update box --expires 2001-01-01T00:00:00Z', /^troupe: expires_at must be in the future/, { code: 2 }),
    said(
      'update box --address boxes-at-home',
      /^Changed box: the address \(boxes-at-home\..*\)\. It was not restarted/,
    ),
    said('show box', /\naddress\tboxes-at-home\./),
    said('update boxes --address boxes-at-home', /is the address of your container box .* --address none`/, {
      code: 6,
    }),
    said('update box --address www', /^troupe: address_name is a name that the platform keeps for itself/, { code: 2 }),
    list('address ls', 'CONTAINER,RESERVED UNTIL,NAME', listAddressNames.reply),
    said('address ls', /\nbox\t\tboxes-at-home\n/),
    said('update box --address none', /^Changed box: the address \(.*\)\. It was not restarted\.\n$/),
    said('address ls', /\n\t20.*Z\tboxes-at-home\n/),
    said('run x --address NO', /^troupe: address_name must be 3 to 40 characters/, { code: 2 }),
    said('update box --overlap', /^Changed box: whether another image begins beside it \(yes\)\. It was not restarted/),
    said('update box --no-overlap', /^Changed box: whether another image begins beside it \(no\)\./),
    {
      words: [...typed('update box --release'), 'npm run migrate'],
      says: /^Changed box: the release command\. It was not restarted\.\n$/,
    },
    {
      words: [...typed('update box --release'), ''],
      says: /^Changed box: the release command \(none\)\. It was not restarted\.\n$/,
    },
    said('update box --egress none', /^Changed box: what it may reach \(none\)\. It was not restarted\.\n$/),
    said('update box --egress 203.0.113.0/24,198.51.100.7', /reach \(198\.51\.100\.7\/32,203\.0\.113\.0\/24\)\./),
    said('show box', /\nmay reach\t198\.51\.100\.7\/32,203\.0\.113\.0\/24\n/),
    said('update box --egress any', /^Changed box: what it may reach \(any\)\./),
    said('update box --egress 203.0.113.7/24', /^troupe: egress\.0 must be a network of IPv4, written with/, {
      code: 2,
    }),
    said('run x --egress all', /^troupe: egress\.0 must be a network of IPv4/, { code: 2 }),
    said('run x --alias db', /^troupe: alias is the name in a private network/, { code: 2 }),
    deed('update boxes', failure('usage'), { code: 2 }),
    said('update boxes --image nowhere', /^troupe: .*image/, { code: 2 }),
    deed('stop boxes --wait', done),
    deed('stop boxes', failure('conflict'), { code: 6 }),
    deed('start boxes --wait', done),
    deed('restart boxes --wait', done),
    said('rm boxes', /This deletes boxes with all data: add --yes\./, { code: 2 }),
    deed('rm boxes --yes', done),
    said('run x --access mine', /^troupe: --access is of ports: name one, such as -p 443:8080/, { code: 2 }),
    said('run x -p 80:8080 --access mine', /^troupe: --access mine needs HTTPS by the platform: add/, { code: 2 }),
    deed('run boxes -p 443:8080/https --access mine --address my-boxes --expires 2h', compute.createContainer.reply),
    said('port ls boxes', /8080\/https\tmine/),
    said('ps --wide', /\tEXPIRES\tADDRESS\tID\n(.*\n)*boxes\t.*\t20.*Z\tmy-boxes\..*\n/),
    said('ps --columns name,address', /\nboxes\tmy-boxes\./),
    deed('rm boxes --yes', done),
    list('image ls', 'NAME,SOURCE,IMAGE', listImages.reply),
    // Tests run no registry, unless they are about it (test/e2e/image-commands.long.test.ts).
    said('image push /nowhere app:1', /This platform has no image registry/, { code: 6 }),
    deed('image push /nowhere app:1', failure('state'), { code: 6 }),
    said('image import nginx:1.27 web:1', /This platform has no image registry/, { code: 6 }),
    deed('image import nginx:1.27 web:1', failure('state'), { code: 6 }),
    deed('image rm app:1', failure('state'), { code: 6 }),
    said('image catalog node', /This platform has no image registry/, { code: 6 }),
    said('image catalog nothing', /There is no nothing in the catalog: it has base, node, python/, { code: 2 }),
    deed('image catalog --to nowhere', failure('usage'), { code: 2 }),
    deed('pull-policy box missing', settings.setPullPolicy.reply),
    // Its image is none of the platform's own.
    {
      words: ['deploy', join(projectRoot, 'examples'), '--name', 'box', '--start', 'node x.js', '--build', ''],
      code: 6,
      json: failure('state'),
    },
    said('deploy /nowhere', /There is no folder \/nowhere\./, { code: 5 }),
    list('releases box', 'CURRENT,DEPLOYED,NOTE,RELEASE', z.strictObject({ releases: z.array(z.never()) })),
    said('rollback box', /Nothing is deployed here\./, { code: 6 }),
    said('rollback box x', /x is no release: `troupe releases` lists them\./, { code: 2 }),
    list('top', 'NAME,CPU,MEMORY,DISK,NODE,ID', monitor.podMetrics.reply),
  ];
}

function inside(): CommandStep[] {
  return [
    { words: ['exec', 'box', '--', 'echo printed >/proc/1/fd/1'], says: /^$/, input: () => '', isForeign: true },
    said('logs box --tail 1', /\S/),
    deed('logs box --tail 2 --until 0s', logLine, { isLines: true }),
    said('shell box', /6 \* 7 is 42/, { input: () => 'echo "6 * 7 is $((6 * 7))"; exit\n', isForeign: true }),
    { words: ['shell', 'box'], code: 7, input: () => 'echo there; exit 7\n', says: /there/, isForeign: true },
    said('exec box -- ls /root', /^$/, { input: () => '' }),
    said('exec box ls -l', /\(put -- before .*: exec NAME -- ls -l\)/, { code: 2 }),
    { words: ['exec', 'box', '--', 'echo out; echo err >&2; exit 7'], code: 7, says: /out\nerr\n/, isForeign: true },
    deed('ssh box --disable', settings.setSsh.reply),
    said('ssh box', /SSH is off: `troupe ssh box --enable`/, { code: 6 }),
    deed('forward box 18080:80', failure('state'), { code: 6 }),
    deed('ssh box --enable', settings.setSsh.reply),
    { words: ({ keyFile }) => ['ssh', 'box', '--', '-i', keyFile, 'exit 4'], code: 4, isForeign: true },
    said('ssh-config', /^Host box\.troupe\n {2}HostName /),
    {
      words: ({ data }) => ['cp', join(data, 'note'), 'box:/tmp/note'],
      json: z.strictObject({ copied: z.array(z.strictObject({ from: z.string(), to: z.literal('box:/tmp/note') })) }),
    },
    { words: ({ data }) => ['cp', 'box:/none', data], json: failure('not_found'), code: 5 },
    list('port ls box', 'OUTSIDE,INSIDE,ACCESS,CACHE,CREATED,PORT', settings.listIngress.reply),
    said('open box', /box has no port: `troupe port add box 80:8080` opens one\./, { code: 6 }),
    deed('port add box 8085:80', settings.addIngress.reply),
    deed('port add box 8086:80 --access mine', failure('usage'), { code: 2 }),
    deed('port add box 8086:80/https --access all', failure('usage'), { code: 2 }),
    deed('port add box 8086:80/https --access mine', settings.addIngress.reply),
    deed('port rm box 8086', settings.deleteIngress.reply),
    said('port add box 8086:80/https --access password', /password must have 8 characters at least/, {
      code: 2,
      input: () => 'short\n',
    }),
    said(
      'port add box 8086:80/https --access password',
      /within 5 s\. It asks for the password;[^\n]*\nPort 8085 leads to the same program and asks nobody: `troupe port rm box 8085`\.\n$/,
      {
        input: () => 'canary-of-port\n',
      },
    ),
    said('port ls box', /\t80\/https\tpassword\texplicit\t\S+\t8086\n/),
    said('show box', /\ncache\texplicit\n/),
    deed('port cache box 8085 off', settings.changeIngress.reply),
    said('port cache box 8085 off', /:8085: Gateways keep no answer\.\n$/),
    said('show box', /\ncache\t8085 off, 8086 explicit\n/),
    deed('port cache box 8085 some', failure('usage'), { code: 2 }),
    deed('port cache box 8999 off', failure('not_found'), { code: 5 }),
    deed('port add box 8087:80 --cache default', settings.addIngress.reply),
    deed('port rm box 8087', settings.deleteIngress.reply),
    said('show box', /\nports\t8085 -> 80, 8086 -> 80\/https \(password\)\n/),
    deed('port rm box 8086', settings.deleteIngress.reply),
    deed('port add box 22', failure('usage'), { code: 2 }),
    said('port add box 80:8080/https', /port 80 is for plain HTTP\. Use 443:8080\/https\./, { code: 2 }),
    deed('open box', z.strictObject({ url: z.url() })),
    said('open box', /^https?:\/\/\S+:8085\/\n$/),
    deed('port rm box 8085', settings.deleteIngress.reply),
    said('port add box 80:8080', /^http:\/\/[a-z0-9]{12}\.compute\.\S+:\d+\/ leads to port 8080, within 5 s\.\n$/),
    said('port ls box', /\nhttp:\/\/\S+:\d+\/\t8080\tpublic\texplicit\t\S+\t80\n$/),
    said('open box', /^http:\/\/\S+:\d+\/\n$/),
    said('show box', /\npage\thttp:\/\/\S+:\d+\/\n/),
    deed('port rm box 80', settings.deleteIngress.reply),
    list('env ls box', 'VALUE,KIND,NAME', getSettings.reply),
    deed('env set box PORT=8080 NAME=a=b', settings.updateContainer.reply),
    deed('env set box nothing', failure('usage'), { code: 2 }),
    deed('env set box', failure('usage'), { code: 2 }),
    deed('env set box --file - LEVEL=2', settings.updateContainer.reply, {
      input: () => '# what it is\nexport LEVEL=1\nWORDS="two words"\n',
    }),
    deed('env secret box --file -', settings.updateContainer.reply, { input: () => 'TOKEN=canary-of-env\n' }),
    deed('env secret box --file /none/such', failure('usage'), { code: 2 }),
    said(
      'env ls box',
      /\n2\tvariable\tLEVEL\na=b\tvariable\tNAME\n8080\tvariable\tPORT\ntwo words\tvariable\tWORDS\n\*{8}\tsecret\tTOKEN\n$/,
    ),
    deed('env rm box LEVEL WORDS TOKEN', settings.updateContainer.reply),
    deed('env secret box KEY', settings.updateContainer.reply, { input: () => 'canary-of-env\n' }),
    said('env ls box', /\na=b\tvariable\tNAME\n8080\tvariable\tPORT\n\*{8}\tsecret\tKEY\n$/),
    deed('env rm box PORT NAME KEY', settings.updateContainer.reply),
    deed('env rm box PORT', failure('missing'), { code: 5 }),
    list('revisions box', 'NOW,IMAGE,DIGEST,VARIABLES,STARTED,NOTE,REVISION', listRevisions.reply),
    deed('update box --revision 1', settings.updateContainer.reply),
    deed('update box --revision 1 --secrets', settings.updateContainer.reply),
    deed('update box --secrets', failure('usage'), { code: 2 }),
    deed('update box --revision x', failure('usage'), { code: 2 }),
    deed('update box --revision 4711', failure('invalid_request'), { code: 2 }),
    list('mount ls box', 'PATH', settings.getMounts.reply),
    deed('mount set box /root', settings.setMounts.reply),
  ];
}

function outside(): CommandStep[] {
  return [
    deed('hostname add www.example.org box', network.createMapping.reply),
    deed('hostname add www.example.org box', failure('conflict'), { code: 6 }),
    list('hostname ls', 'HOSTNAME,STATUS,LEADS TO,CACHE,ID', network.listMappings.reply),
    deed('hostname cache www.example.org off', network.changeMapping.reply),
    said('hostname ls', /\nwww\.example\.org\tpending\tbox:80\toff\t/),
    deed('hostname verify www.example.org', network.verifyMapping.reply, { code: 6 }),
    deed('hostname rm www', z.strictObject({ id: z.string(), domain: z.literal('www.example.org') })),
    said('dns rm example.net', /No DNS provider is connected/, { code: 5 }),
    said('dns connect', /The token comes on standard input/, { code: 2, input: () => '\n' }),
    deed('dns connect', failure('invalid_request'), { code: 2, input: () => 'another-token\n' }),
    deed('dns connect', network.connectDomain.reply, { input: () => 'dns-token\n' }),
    deed('hostname add www.example.net box --port 80', network.createMapping.reply),
    list('dns ls', 'ZONES,CONNECTED,ID', network.listOwnedDomains.reply),
    said('hostname ls', /\nwww\.example\.net\tverified\tbox:80\texplicit\t/),
    deed('hostname rm www.example.net', z.strictObject({ id: z.string(), domain: z.literal('www.example.net') })),
    deed('dns refresh example', network.refreshDomain.reply),
    said('dns refresh example.org', /^Its zones are example\.net, example\.org\.\n$/),
    deed('dns refresh other', failure('missing'), { code: 5 }),
    deed('dns rm example', id),
    list('admin ps', 'OWNER,NAME,STATUS,SIZE,MEMORY,CREATED,ADDRESS,ID', listAllContainers.reply),
    list('admin machines', 'CPU,MEMORY,DISK,CONDITION,NAME', monitor.clusterInfo.reply),
    list('admin map', 'FROM,BY,TRAFFIC,STATUS OF TO,TO', monitor.dependencyGraph.reply),
    said('admin map', /^service:gateway\thttp\t\d+ requests\tok\tservice:compute$/m),
  ];
}

function keys(): CommandStep[] {
  const key = generateKeyPair('laptop').publicKey;
  const read = 'compute.containers:read';
  return [
    deed('key add - --name laptop', compute.createSshKey.reply, { input: () => key }),
    list('key ls', 'NAME,TYPE,FINGERPRINT,LOGIN,ADDED,ID', compute.listSshKeys.reply),
    deed('key login laptop', compute.setSshKeyLogin.reply),
    deed('key login laptop --off', compute.setSshKeyLogin.reply),
    deed('key rm laptop', compute.deleteSshKey.reply),
    list('security-key ls', 'NAME,TYPE,ADDED,ID', listKeys.reply),
    deed('security-key rm nothing', failure('missing'), { code: 5 }),
    said('api-token create ci', /required option '--scope/, { code: 2 }),
    deed(`api-token create ci --scope ${read}`, tokens.createToken.reply),
    list('api-token ls', 'NAME,SCOPES,EXPIRES,LAST USED,ID', tokens.listTokens.reply),
    deed('api-token rm ci', tokens.deleteToken.reply),
    deed(`service-account create bot --scope ${read}`, tokens.createServiceAccount.reply),
    list('service-account ls', 'NAME,SCOPES,TOKENS,CREATED,ID', tokens.listServiceAccounts.reply),
    deed(`service-account scopes bot --scope ${read},start`, tokens.setServiceAccountScopes.reply),
    deed('service-account token bot one', tokens.createServiceAccountToken.reply),
    list('service-account tokens bot', 'NAME,EXPIRES,LAST USED,ID', tokens.listServiceAccountTokens.reply),
    deed('service-account rm bot', tokens.deleteServiceAccount.reply),
  ];
}

function notices(): CommandStep[] {
  return [
    list('notifications', 'WHEN,CATEGORY,TITLE,MESSAGE,ID', notify.listNotifications.reply),
    deed('mute add storage', notify.addMute.reply),
    list('mute ls', 'CATEGORY,SCOPE,SINCE', notify.listMutes.reply),
    deed('mute rm storage', notify.removeMute.reply),
    { words: ({ hookUrl }) => ['webhook', 'add', hookUrl, '--category', 'compute'], json: webhooks.addWebhook.reply },
    list('webhook ls', 'URL,CATEGORIES,STATUS,WAITING,ID', webhooks.listWebhooks.reply),
    deed('webhook test http', webhooks.testWebhook.reply),
    {
      ...list('webhook deliveries http', 'WHEN,STATUS,TIME,TRY,ERROR,EVENT', webhooks.listWebhookDeliveries.reply),
      first: ({ hooks }) => until(() => hooks() > 0, { what: 'the test has come', timeoutMs: 60_000 }),
    },
    said('webhook rotate http', /^whsec_\S+\nThe secret before signs/),
    deed('webhook disable http', webhooks.updateWebhook.reply),
    deed('webhook enable http', webhooks.updateWebhook.reply),
    deed('webhook rm http', webhooks.deleteWebhook.reply),
    deed('webhook rm http', failure('missing'), { code: 5 }),
    deed('mail get', mail.getMail.reply),
    deed('mail set', failure('usage'), { code: 2 }),
    deed('mail set ann@example.com', mail.setMail.reply),
    {
      words: ({ mailCode }) => ['mail', 'verify', mailCode()],
      json: mail.verifyMail.reply,
      first: ({ mailCode }) => until(() => mailCode() !== '', { what: 'the code has come', timeoutMs: 60_000 }),
    },
    deed('mail set --off', mail.setMail.reply),
  ];
}

function ends(): CommandStep[] {
  return [
    deed('logout', z.strictObject({ profile: z.literal('default'), ended: z.literal(true) })),
    said('ps', /You are not logged in/, { code: 3 }),
  ];
}
