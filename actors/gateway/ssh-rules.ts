/** Who may enter a container by SSH, and what the others are told. */
import {
  type SshAccountAnswer,
  type SshAccountQuestion,
  type SshAnswer,
  type SshFound,
  sshCommand,
} from '../../proto/gateway/ssh.ts';
import type { SshAccess } from '../../storage/gateway/ssh-access.ts';
import type { KeyHolders } from '../../storage/gateway/ssh-accounts.ts';

/** The answer for a key about which `access` is known. */
export function sshAnswer(containerId: string, access: SshAccess | undefined): SshAnswer {
  // A port that is not open is no way to learn what the container's owner has.
  if (access === undefined || !access.isOpen) return { kind: 'stranger' };
  const { userId, status, sshEnabled, isChosen } = access;
  const explain = (text: string, isFinal = true): SshAnswer => ({ kind: 'explain', text, isFinal });
  if (!isChosen) {
    return explain(
      `This key is yours, but it was not chosen for container ${containerId} when that was created.`,
      false,
    );
  }
  if (!sshEnabled) {
    return explain(`SSH is off for container ${containerId}: PUT /compute/containers/${containerId}/ssh turns it on.`);
  }
  if (status !== 'running') {
    const hint = status === 'pending' || status === 'initializing' ? 'wait until it runs.' : 'start it first.';
    return explain(`Container ${containerId} is ${status}: ${hint}`);
  }
  return { kind: 'enter', userId };
}

/** Most containers that are named to a person whose key opens several. */
export const MAX_NAMED = 10;

/** Where a login as `root` leads whose key opens these containers; `at` is where the gateway is reached. */
export function sshFound(ids: readonly string[], at: { readonly host: string; readonly port: number }): SshFound {
  const [only, ...others] = ids;
  if (only === undefined) return { kind: 'none' };
  if (others.length === 0) return { kind: 'one', containerId: only };
  const commands = ids.slice(0, MAX_NAMED).map((id) => `  ${sshCommand(id, at)}`);
  return { kind: 'several', text: ['This key opens several containers. Say which:', ...commands].join('\n') };
}

/** Most owners of one key that are told apart. */
export const MAX_OWNERS = 20;

/**
 * Whose account a key opens that is proven: `owners` have it. Anybody can add anybody's public key, so the name of a
 * user (`isUsername`) leads to their account alone, and where several have the key there must be one.
 */
export function accountAnswer(
  { user, fingerprint }: SshAccountQuestion,
  { owners, isUsername }: KeyHolders,
): SshAccountAnswer {
  const opened = owners.filter(({ isLogin }) => isLogin);
  const [first] = opened;
  if (first === undefined) {
    if (owners.length === 0) return { kind: 'none' };
    const text =
      'This key opens containers, but no account. Its owner lets it log in: `troupe key login NAME`, or PUT ' +
      '/compute/ssh-keys/<id>/login.\nThe user name of a container is its id: ssh <container id>@<this host>.';
    return { kind: 'explain', text };
  }
  const named = opened.find(({ username }) => username === user);
  if (named === undefined && isUsername) {
    const text =
      `There is a user ${user}, whose account this key does not open. For another account give its user name on the ` +
      'platform: ssh NAME@<this host>.';
    return { kind: 'explain', text };
  }
  if (named === undefined && owners.length > 1) {
    const text = 'Several users have this key. Give your user name on the platform: ssh NAME@<this host>.';
    return { kind: 'explain', text };
  }
  const found = named ?? first;
  const { userId, username, sessionsEpoch, keyName } = found;
  return { kind: 'enter', account: { userId, username, sessionsEpoch, keyName, fingerprint, asked: user } };
}
