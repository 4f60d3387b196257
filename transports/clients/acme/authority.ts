/** A certificate authority by ACME (RFC 8555, TLS-ALPN-01 of RFC 8737) on acme-client; times and errors are ours. */
import { createPublicKey, X509Certificate } from 'node:crypto';
import { Agent } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import acme, { type Authorization, type Order } from 'acme-client';
import { errorText } from '../../../lib/errors.ts';
import { CaError, type CaOrder, type CertificateAuthority } from '../../../proto/ports/acme.ts';
import { type CaAnswer, type CaCall, caError, during, errorOf, problemOf, retryAfter } from './https.ts';

export interface AcmeOptions {
  readonly directoryUrl: string;
  /** Trusted besides nothing else for this authority (PEM); undefined: what the system trusts. */
  readonly ca?: string | undefined;
  readonly email?: string | undefined;
  /** External account binding (RFC 8555, section 7.3.4), where the authority wants one. `hmacKey` in base64url. */
  readonly binding?: { readonly kid: string; readonly hmacKey: string } | undefined;
  /** For one request, ms. Default 15,000. */
  readonly timeoutMs?: number;
  /** For an order to get on, ms: validation, then issuance. Default 60,000. */
  readonly patienceMs?: number;
  readonly now?: () => number;
}

/** The library tries six times by itself; with nine of ten nonces refused, one call in two gets through. */
const NONCE_TRIES = 12;
const FIRST_POLL_MS = 50;
const LAST_POLL_MS = 5000;

/** Makes it. Connects when it is first used. */
export function acmeAuthority(options: AcmeOptions): CertificateAuthority {
  return new AcmeAuthority(options);
}

class AcmeAuthority implements CertificateAuthority {
  readonly directoryUrl: string;
  readonly #options: AcmeOptions;
  readonly #times: { readonly timeoutMs: number; readonly patienceMs: number };
  readonly #now: () => number;
  readonly #agent: Agent;
  #known: { readonly key: string; readonly url: string; readonly client: acme.Client } | undefined;

  constructor(options: AcmeOptions) {
    const { directoryUrl, ca, timeoutMs = 15_000, patienceMs = 60_000, now = Date.now } = options;
    this.directoryUrl = directoryUrl;
    this.#options = options;
    this.#times = { timeoutMs, patienceMs };
    this.#now = now;
    this.#agent = new Agent({ keepAlive: true, maxSockets: 16, ...(ca === undefined ? {} : { ca }) });
  }

  async newKey(): Promise<string> {
    return (await acme.crypto.createPrivateEcdsaKey()).toString();
  }

  async register(key: string, signal: AbortSignal): Promise<string> {
    const { email } = this.#options;
    const client = this.#clientFor(key);
    try {
      await this.#ask(signal, () =>
        client.createAccount({
          termsOfServiceAgreed: true,
          ...(email === undefined ? {} : { contact: [`mailto:${email}`] }),
        }),
      );
    } catch (error) {
      // Of an account that is there already the library goes on to change nothing, which strict authorities refuse:
      // it was found.
      const url = addressOf(client);
      if (url === undefined) throw error;
      return url;
    }
    return client.getAccountUrl();
  }

  async issue(request: CaOrder): Promise<string> {
    const { account, hostname, key, signal } = request;
    const client = this.#clientOf(account);
    let order = await this.#orderOf(client, request);
    if (order.status === 'pending') {
      const [authorizations] = await this.#ask(signal, () => client.getAuthorizations(order));
      for (const authorization of authorizations) await this.#answerChallenge(client, authorization, request);
      order = await this.#settled(client, order, ['ready', 'valid'], signal);
    }
    if (order.status === 'ready') {
      const [, csr] = await acme.crypto.createCsr({ altNames: [hostname] }, key);
      const ready = order;
      [order] = await this.#ask(signal, () => client.finalizeOrder(ready, csr));
    }
    if (order.status !== 'valid') order = await this.#settled(client, order, ['valid'], signal);
    const valid = order;
    const [chain] = await this.#ask(signal, () => client.getCertificate(valid));
    checkChain(chain, key, hostname);
    return chain;
  }

  close(): void {
    this.#agent.destroy();
  }

  async #orderOf(client: acme.Client, { orderUrl, hostname, onOrder, signal }: CaOrder): Promise<Order> {
    if (orderUrl !== undefined) {
      const placed: Order = { url: orderUrl, status: 'pending', identifiers: [], authorizations: [], finalize: '' };
      const [order] = await this.#ask(signal, () => client.getOrder(placed));
      if (order.status === 'invalid')
        throw new CaError('no_order', (await this.#whyInvalid(client, order, signal)).message);
      return order;
    }
    const [order] = await this.#ask(
      signal,
      () => client.createOrder({ identifiers: [{ type: 'dns', value: hostname }] }),
      true,
    );
    await onOrder(order.url);
    return order;
  }

  async #answerChallenge(
    client: acme.Client,
    authorization: Authorization,
    { hostname, present, signal }: CaOrder,
  ): Promise<void> {
    if (authorization.status === 'valid') return;
    if (authorization.identifier.value !== hostname)
      throw new CaError('bad_answer', `The certificate authority asks about ${authorization.identifier.value}`);
    const challenge = authorization.challenges.find(({ type }: { type: string }) => type === 'tls-alpn-01');
    if (challenge === undefined)
      throw new CaError('refused', 'The certificate authority does not offer TLS-ALPN-01 for this name');
    const alpnKey = await acme.crypto.createPrivateEcdsaKey();
    const keyAuthorization = await client.getChallengeKeyAuthorization(challenge);
    const [key, cert] = await acme.crypto.createAlpnCertificate(authorization, keyAuthorization, alpnKey);
    await present({ cert: cert.toString(), key: key.toString() });
    // It may have been answered before, by whoever had the order then.
    if (challenge.status === 'pending') await this.#ask(signal, () => client.completeChallenge(challenge));
  }

  /** Looks at the order until it is in one of these states. */
  async #settled(client: acme.Client, order: Order, states: readonly string[], signal: AbortSignal): Promise<Order> {
    const deadline = performance.now() + this.#times.patienceMs;
    for (let pause = FIRST_POLL_MS; ; pause = Math.min(pause * 2, LAST_POLL_MS)) {
      const [seen, answer] = await this.#ask(signal, () => client.getOrder(order));
      if (states.includes(seen.status)) return seen;
      if (seen.status === 'invalid') throw await this.#whyInvalid(client, seen, signal);
      const wait = Math.max(pause, retryAfter(answer?.headers['retry-after'], this.#now()) ?? 0);
      if (performance.now() + wait > deadline)
        throw new CaError('stuck', `The certificate authority has left the order in the state "${seen.status}"`, {
          retryAfterMs: wait,
        });
      await sleep(wait, undefined, { signal }).catch((error: unknown) => {
        signal.throwIfAborted();
        throw error;
      });
    }
  }

  async #whyInvalid(client: acme.Client, order: Order, signal: AbortSignal): Promise<CaError> {
    const [authorizations] = await this.#ask(signal, () => client.getAuthorizations(order));
    const errors = [order.error, ...authorizations.flatMap(({ challenges }) => challenges.map(({ error }) => error))];
    const problem = errors.map(problemOf).find((found) => found !== undefined);
    return caError('refused', problem?.detail ?? 'The certificate authority gave the order up', problem?.type);
  }

  /** The client of an account. It is kept for its copy of the directory. */
  #clientOf(account: CaOrder['account']): acme.Client {
    if (this.#known?.url !== account.url || this.#known.key !== account.key)
      this.#known = { ...account, client: this.#clientFor(account.key, account.url) };
    return this.#known.client;
  }

  #clientFor(key: string, url?: string): acme.Client {
    const { directoryUrl, binding } = this.#options;
    return new acme.Client({
      directoryUrl,
      accountKey: key,
      ...(url === undefined ? {} : { accountUrl: url }),
      ...(binding === undefined ? {} : { externalAccountBinding: binding }),
    });
  }

  /** One call of the library; its failure as a CaError. */
  async #ask<T>(signal: AbortSignal, work: () => Promise<T>, isAtOrder = false): Promise<[T, CaAnswer | undefined]> {
    const { timeoutMs } = this.#times;
    for (let tries = 1; ; tries++) {
      const call: CaCall = { agent: this.#agent, timeoutMs, signal, last: undefined };
      try {
        return [await during(call, work), call.last];
      } catch (cause) {
        signal.throwIfAborted();
        if (cause instanceof CaError) throw cause;
        if (call.last === undefined) throw caError('bad_answer', errorText(cause), undefined, { cause });
        // A good answer that the library could make nothing of.
        if (call.last.status < 400) throw caError('bad_answer', errorText(cause), undefined, { cause });
        const error = errorOf(call.last, this.#now(), isAtOrder, cause);
        if (error.problem !== 'badNonce' || tries >= NONCE_TRIES) throw error;
      }
    }
  }
}

/** Throws CaError `no_order` unless this is a chain, leaf first, for our key and this name. */
export function checkChain(chain: string, key: string, hostname: string): void {
  const wrong = (what: string, cause?: unknown) =>
    new CaError('no_order', `The certificate authority sent a certificate that ${what}`, { cause });
  let certificates: X509Certificate[];
  try {
    certificates = acme.crypto.splitPemChain(chain).map((pem) => new X509Certificate(pem));
  } catch (cause) {
    throw wrong('cannot be read', cause);
  }
  const [leaf] = certificates;
  if (leaf === undefined) throw wrong('is empty');
  if (!leaf.publicKey.equals(createPublicKey(key))) throw wrong('is for another key');
  if (leaf.checkHost(hostname, { subject: 'never' }) === undefined) throw wrong(`is not for ${hostname}`);
  for (const [i, certificate] of certificates.entries()) {
    const issuer = certificates[i + 1];
    if (issuer !== undefined && !(certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)))
      throw wrong('does not belong to its chain');
  }
}

/** Where the account is, as far as the library knows. */
function addressOf(client: acme.Client): string | undefined {
  try {
    return client.getAccountUrl();
  } catch {
    return undefined;
  }
}
