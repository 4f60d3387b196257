/** What the gateway's SSH server asks the decider: who may enter which container. */

/** A key that is offered for a container. The client has not proven yet that it has the key. */
export interface SshQuestion {
  /** As the client wrote it, but of the shape of an id. */
  readonly containerId: string;
  /** `SHA256:` and the unpadded base64 of the key blob's hash. */
  readonly fingerprint: string;
  /** The port from 8000 to 8999 by which the client came; undefined for the SSH port. */
  readonly port: number | undefined;
}

/**
 * What becomes of it. `stranger`: there is no such container, or its owner has no such key; the two are never told
 * apart. `explain`: the key is the owner's, but does not open the container now; `text` is for whoever proves to have
 * it, and with `isFinal` another of their keys would not change that. `unavailable`: it cannot be known now.
 */
export type SshAnswer =
  | { readonly kind: 'enter'; readonly userId: string }
  | { readonly kind: 'explain'; readonly text: string; readonly isFinal: boolean }
  | { readonly kind: 'stranger' }
  | { readonly kind: 'unavailable' };

/** Which containers a key opens now. `several`: `text` names the commands, for whoever proves to have the key. */
export type SshFound =
  | { readonly kind: 'one'; readonly containerId: string }
  | { readonly kind: 'several'; readonly text: string }
  | { readonly kind: 'none' }
  | { readonly kind: 'unavailable' };

/** Where SSH is reached from outside. Names below `.localhost` resolve in browsers and curl only: there an address. */
export function sshHost(domain: string, address = '127.0.0.1'): string {
  return /(?:^|\.)localhost$/i.test(domain) ? address : `compute.${domain}`;
}

/** The command that leads to a container through the gateway. */
export function sshCommand(
  containerId: string,
  { host, port }: { readonly host: string; readonly port: number },
): string {
  return `ssh ${port === 22 ? '' : `-p ${port} `}${containerId}@${host}`;
}

/** A login that was let in, as its actor knows it. */
export interface SshConnectionInfo extends SshQuestion {
  readonly userId: string;
  readonly address: string;
  /** Ends it at once; `reason` is a sentence for the person behind it. Idempotent. */
  readonly end: (reason: string) => void;
}

/** Decides about logins, and ends those that lost their right. */
export interface SshAuthorizer {
  /** Never rejects. */
  ask(question: SshQuestion): Promise<SshAnswer>;
  /** For a client that names no container (`root@`). Never rejects. */
  find(question: Omit<SshQuestion, 'containerId'>): Promise<SshFound>;
  /**
   * Takes a connection that `ask` let in under its supervision; undefined when its user has too many. What comes back
   * is to be called when the connection ended.
   */
  adopt(connection: SshConnectionInfo): (() => void) | undefined;
}

/** A key that is offered for an account, and proven. */
export interface SshAccountQuestion {
  /** The user name that the client gave, which is no id of a container and not `root`. */
  readonly user: string;
  /** As in SshQuestion. */
  readonly fingerprint: string;
}

/** An account that a key opens. */
export interface SshAccount {
  readonly userId: string;
  readonly username: string;
  /** The user's epoch at the login: in another one the login is over (`SessionBirth`). */
  readonly sessionsEpoch: number;
  readonly fingerprint: string;
  /** The key's name. */
  readonly keyName: string;
  /** The user name that the client gave: another one where the key alone says whose account it is. */
  readonly asked: string;
}

/** What becomes of it. `explain`: the key is known, but opens no account, or not that of the name that was given. */
export type SshAccountAnswer =
  | { readonly kind: 'enter'; readonly account: SshAccount }
  | { readonly kind: 'explain'; readonly text: string }
  | { readonly kind: 'none' }
  | { readonly kind: 'unavailable' };

/** A login to an account that was let in, as its actor knows it. */
export interface SshAccountConnection extends SshAccount {
  readonly address: string;
  /** As in SshConnectionInfo. */
  readonly end: (reason: string) => void;
}

/** Decides about logins to accounts, and ends those that lost their right. */
export interface SshAccountAuthorizer {
  /** Never rejects. */
  account(question: SshAccountQuestion): Promise<SshAccountAnswer>;
  /** As `adopt` of SshAuthorizer; resolves with a sentence where the login cannot be. Never rejects. */
  adoptAccount(connection: SshAccountConnection): Promise<(() => void) | string>;
}
