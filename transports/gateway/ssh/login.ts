/** Proves who a client is (RFC 4252): a public key that may enter the container named as the user. Nothing else. */
import { createHash } from 'node:crypto';
import ssh2, { type AuthContext, type Connection, type PublicKeyAuthContext } from 'ssh2';
import type {
  SshAccount,
  SshAccountAnswer,
  SshAccountQuestion,
  SshAnswer,
  SshFound,
  SshQuestion,
} from '../../../proto/gateway/ssh.ts';
import { ID_PATTERN } from '../../../proto/ids.ts';
import { banner } from './internals.ts';

/** What logging in needs of its connection. */
interface LoginDeps {
  /** The port from 8000 to 8999 by which the client came, if it did. */
  readonly port: number | undefined;
  readonly ask: (question: SshQuestion) => Promise<SshAnswer>;
  /** Where a key leads that names no container. */
  readonly find: (question: Omit<SshQuestion, 'containerId'>) => Promise<SshFound>;
  /** Something was wrong: how long the answer should wait, ms. */
  readonly onMistake: () => number;
  /** The key is proven and may enter. Resolves with a sentence when it cannot, and the connection is to end. */
  readonly onProven: (question: SshQuestion, userId: string) => Promise<string | undefined>;
  /** Whose account a key opens; undefined: there are no logins to accounts. */
  readonly account: ((question: SshAccountQuestion) => Promise<SshAccountAnswer>) | undefined;
  /** As `onProven`, of an account. */
  readonly onAccount: (account: SshAccount) => Promise<string | undefined>;
  /** Ends the connection with a sentence for the person behind it. */
  readonly end: (text: string) => void;
}

/** Requests of one connection; an agent may hold many keys, and each is asked about and then proven. */
const MAX_REQUESTS = 40;
/** Of these, such as were refused. */
const MAX_REFUSALS = 20;
const MAX_KEY_BYTES = 16 * 1024;

/** As OpenSSH's server says it. */
const TOO_MANY = 'Too many authentication failures';
/** The user of `ssh_command`: the key says which container is meant. */
const ROOT = 'root';
const WHO =
  'The user name is the id of a container: ssh <container id>@<this host>. As root, a key that opens exactly ' +
  'one running container leads there. Under any other name, a login key opens your account.';
/** The same for whoever asks about a container that is not there, and for whoever may not know. */
const NOBODY = (id: string) =>
  `None of the keys that were offered opens a container ${id}.\nCheck the id, and that one of the container's ` +
  'SSH keys is yours (ssh -i FILE).';
const LATER = 'The platform cannot say now who may enter: try again in a moment.';

/** Answers a connection's authentication requests, one after the other as ssh2 hands them on. */
export function serveLogin(client: Connection, deps: LoginDeps): void {
  let requests = 0;
  let refusals = 0;
  let isExplained = false;
  const timers = new Set<NodeJS.Timeout>();
  client.on('close', () => {
    for (const timer of timers) clearTimeout(timer);
  });

  /** Says no, after a while when there was too much of it. */
  const refuse = (context: AuthContext): void => {
    const waitMs = deps.onMistake();
    if (++refusals >= MAX_REFUSALS) {
      deps.end(TOO_MANY);
      return;
    }
    const timer = setTimeout(() => {
      timers.delete(timer);
      // The second is for those without a key that fits: it is answered with a word of help.
      context.reject(['publickey', 'keyboard-interactive']);
    }, waitMs);
    timers.add(timer);
  };
  const explainOnce = (text: string): void => {
    if (!isExplained) banner(client, text);
    isExplained = true;
  };

  const provePublicKey = async (context: PublicKeyAuthContext, containerId: string): Promise<void> => {
    const { key, signature } = context;
    if (!isUsable(context)) return refuse(context);
    const question = { containerId, fingerprint: fingerprintOf(key.data), port: deps.port };
    const answer = await deps.ask(question);
    if (answer.kind === 'unavailable') return fail(LATER);
    if (answer.kind === 'stranger') return refuse(context);
    if (signature === undefined) return context.accept();
    if (!isGood(context)) return refuse(context);
    if (answer.kind === 'explain') {
      if (answer.isFinal) return fail(answer.text);
      isExplained = false;
      explainOnce(answer.text);
      return refuse(context);
    }
    const problem = await deps.onProven(question, answer.userId);
    if (problem === undefined) context.accept();
    else fail(problem);
  };
  /** Whether a key was proven. One that is only asked about is accepted: nobody hears whether it is known. */
  const mayProve = (context: PublicKeyAuthContext): boolean => {
    if (isUsable(context) && isGood(context)) return true;
    if (isUsable(context) && context.signature === undefined) context.accept();
    else refuse(context);
    return false;
  };
  /** A key without the name of a container. Nobody hears that it is known here who has not proven to have it. */
  const proveRoot = async (context: PublicKeyAuthContext): Promise<void> => {
    if (!mayProve(context)) return;
    const found = await deps.find({ fingerprint: fingerprintOf(context.key.data), port: deps.port });
    if (found.kind === 'unavailable') return fail(LATER);
    if (found.kind === 'several') return fail(found.text);
    if (found.kind === 'one') return provePublicKey(context, found.containerId);
    explainOnce(WHO);
    refuse(context);
  };
  /** A user name that is neither an id nor `root`. Nobody hears that the key is known who has not proven to have it. */
  const proveAccount = async (context: PublicKeyAuthContext, ask: NonNullable<LoginDeps['account']>): Promise<void> => {
    if (!mayProve(context)) return;
    const answer = await ask({ user: context.username, fingerprint: fingerprintOf(context.key.data) });
    if (answer.kind === 'unavailable') return fail(LATER);
    if (answer.kind === 'enter') {
      const problem = await deps.onAccount(answer.account);
      return problem === undefined ? context.accept() : fail(problem);
    }
    if (answer.kind === 'explain') isExplained = false;
    explainOnce(answer.kind === 'explain' ? answer.text : WHO);
    refuse(context);
  };
  const fail = (text: string): void => {
    banner(client, text);
    deps.end(text);
  };

  const answer = async (context: AuthContext): Promise<void> => {
    if (++requests > MAX_REQUESTS) return deps.end(TOO_MANY);
    if (context.username === ROOT && context.method === 'publickey') return proveRoot(context);
    const isId = ID_PATTERN.test(context.username);
    // A port of a container is for containers alone.
    if (!isId && context.username !== ROOT && deps.account !== undefined && deps.port === undefined) {
      if (context.method === 'publickey') return proveAccount(context, deps.account);
      if (context.method === 'none') return context.reject(['publickey', 'keyboard-interactive']);
    }
    if (!isId && (context.username !== ROOT || context.method !== 'none')) explainOnce(WHO);
    if (context.method === 'none') return context.reject(['publickey', 'keyboard-interactive']);
    if (!isId) return refuse(context);
    if (context.method === 'publickey') return provePublicKey(context, context.username);
    if (context.method === 'keyboard-interactive') explainOnce(NOBODY(context.username));
    refuse(context);
  };
  client.on('authentication', (context) => {
    // A connection that ended meanwhile takes no answer any more.
    answer(context).catch(() => deps.end('The login could not be finished.'));
  });
}

/** `SHA256:` and unpadded base64, as proto/compute/ssh-key.ts makes it. */
export function fingerprintOf(blob: Buffer): string {
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
}

/** Whether a key is no larger than keys are, and an RSA key signs with more than SHA-1. */
function isUsable({ key, hashAlgo }: PublicKeyAuthContext): boolean {
  return key.data.length <= MAX_KEY_BYTES && (key.algo !== 'ssh-rsa' || hashAlgo !== undefined);
}

/** Whether the signature is of this key, over this session. */
function isGood({ key, blob, signature, hashAlgo }: PublicKeyAuthContext): boolean {
  if (blob === undefined || signature === undefined) return false;
  const parsed = ssh2.utils.parseKey(`${key.algo} ${key.data.toString('base64')}`);
  if (parsed instanceof Error) return false;
  return parsed.verify(blob, signature, hashAlgo) === true;
}
