/**
 * How much each user may have in the registry that comes along. Who has no room left is refused when a push begins;
 * each part of a body is counted as it passes, so that pushes at the same time share what is left. A user who needs
 * room gets what they took the names off, without waiting a day for it.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { KeyedQueue, soonInTurn } from '../../../lib/concurrency.ts';
import { Refusal } from '../../../proto/errors.ts';
import type { WriteAdmission, WriteBarrier } from '../../../proto/gateway/write-barrier.ts';
import type { RegistryUsage } from '../../../proto/ports/local-registry.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { RegistryBarrier } from './barrier.ts';
import { collectGarbage, lookForGarbage, type Pinned } from './collect.ts';
import { type CountTimes, UserCounts } from './counts.ts';
import { type ImageStore, StoreAway, StoreTooLarge, tagFolder } from './image-store.ts';
import { deletedFolder, ownerIn, type PushedPart, partOf } from './pushed-part.ts';
import {
  areFewManifests,
  type Counted,
  hasRoom,
  manifestsOf,
  type OpenWrite,
  sentence,
  sizes,
  sum,
  tooManyAsked,
  tooManyNames,
  tooManyOf,
} from './quota-rules.ts';
import type { StoreUsage } from './usage.ts';

/** How long a collection for one user waits for writes under way, ms. */
const PATIENCE_MS = 2000;
/** How long it may take: pushes of all wait, ms. */
const COLLECT_MS = 10_000;
/**
 * Then those of all have their time: so many times as long as they waited, and this long after a collection that came
 * to nothing, ms. Whoever needs room waits so long for the next one at most, ms.
 */
const REST_SHARE = 3;
const REST_MS = 20_000;
const MOST_WAIT_MS = 5000;
/** Unfinished uploads without bytes for so long go when their user needs room, ms. */
const FORSAKEN_MS = 10 * 60_000;
/** The registry notices that its client is gone, ms. */
const NOTICE_MS = 500;
/** Requests of one user that wait until it is known what there is. */
const MOST_ASKED = 32;
/** Users without a push that are remembered at most. */
const MOST_KNOWN = 1000;

/** Says whether there is room for a request, or why it is refused. */
export type Admit = NonNullable<WriteBarrier['admit']>;

/** Whether the token that came along lets push to repositories of this user, or delete there. */
export type MayPush = (authorization: string | undefined, owner: string) => Promise<boolean>;

/** How much a user may have, in bytes; undefined: as much as the disk takes. */
export type RoomOf = (owner: string) => Promise<number | undefined>;

/** What it works with. */
interface QuotaOptions {
  readonly store: ImageStore;
  readonly barrier: RegistryBarrier;
  /** In bytes; undefined: there is none. */
  readonly limit: RoomOf;
  readonly mayPush: MayPush;
  readonly pinned: Pinned;
  readonly log: Log;
}

/** What is asked for a request that writes. */
interface AskedRoom {
  readonly owner: string;
  readonly limit: number;
  readonly part: PushedPart;
  readonly declared: number;
}

/** What a user was told. */
interface ToldUsage {
  readonly at: number;
  readonly turn: number;
  readonly used: Promise<number>;
  isKnown: boolean;
}

/** See above. */
export class RegistryQuota {
  readonly #options: QuotaOptions;
  readonly #times: CountTimes;
  readonly #counts: UserCounts;
  readonly #users = new Map<string, Counted>();
  readonly #told = new Map<string, ToldUsage>();
  /** Each look at the whole store takes a connection to the database. */
  readonly #inTurn = new KeyedQueue();
  /** When all may be made to wait again. */
  #restsUntil = 0;

  constructor(options: QuotaOptions) {
    this.#options = options;
    this.#counts = new UserCounts(options.store);
    this.#times = this.#counts.times;
  }

  /**
   * What a user has now, without what a push that needs the room would get. Rejects as a collection does; `unavailable`
   * while a bucket does not answer.
   */
  async usage(owner: string): Promise<RegistryUsage> {
    const limit = await this.#options.limit(owner);
    const used = await this.#used(owner).catch((cause: unknown) => {
      if (cause instanceof StoreTooLarge) throw new Refusal('unavailable', { message: tooManyNames(owner) });
      if (!(cause instanceof StoreAway)) throw cause;
      throw new Refusal('unavailable', {
        message: 'The bucket of the images does not answer now. Try again in a moment.',
      });
    });
    return { used, limit };
  }

  #used(owner: string): Promise<number> {
    const now = performance.now();
    const told = this.#told.get(owner);
    const turn = this.#users.get(owner)?.turn ?? 0;
    // However often it changes meanwhile, a user has it counted once at a time.
    if (told !== undefined && (!told.isKnown || (told.turn === turn && now - told.at < this.#times.toldMs)))
      return told.used;
    for (const [name, { at, isKnown }] of this.#told)
      if (isKnown && now - at >= this.#times.toldMs) this.#told.delete(name);
    const used = this.#needed(owner);
    const counted = { at: now, turn, used, isKnown: false };
    used.then(
      () => {
        counted.isKnown = true;
      },
      () => this.#told.delete(owner),
    );
    this.#told.set(owner, counted);
    return used;
  }

  async #needed(owner: string): Promise<number> {
    const { store, pinned } = this.#options;
    const { held, uploads, blobs } = await this.#counts.anew(owner);
    if (blobs.size === 0 && uploads.size === 0) return 0;
    const garbage = await soonInTurn(this.#inTurn, 'look', MOST_WAIT_MS, () =>
      lookForGarbage(store, { now: Date.now(), owner, pinned, isOwnAlone: store.isRemote }),
    );
    if (garbage === undefined) {
      throw new Refusal('unavailable', {
        message: 'Too many ask what they have in the registry. Try again in a moment.',
      });
    }
    let used = held;
    for (const size of uploads.values()) used += size;
    for (const { folder, bytes } of garbage.blobs) if (blobs.has(folder.slice(-64))) used -= bytes;
    return used;
  }

  /** Says whether there is room for a request. */
  readonly admit: Admit = async ({ method, target, field }) => {
    let user: Counted | undefined;
    try {
      const part = partOf(method, target);
      const owner = part === undefined ? undefined : ownerIn(part.repository);
      if (part === undefined || owner === undefined) return {};
      // Without the right to push the registry refuses, and nobody is told what others have.
      if (!(await this.#options.mayPush(field('authorization'), owner))) return {};
      const limit = await this.#options.limit(owner);
      if (limit === undefined) return {};
      if (method === 'DELETE') return this.#noted(owner, target);
      const counted = this.#user(owner);
      if (counted.asked >= MOST_ASKED) return { later: tooManyAsked(owner) };
      user = counted;
      user.asked += 1;
      const declared = Number(field('content-length') ?? 0);
      const decide = (isNew: boolean) => this.#decide({ owner, limit, part, declared }, isNew);
      let admitted = await decide(false);
      // What is known may count something twice, and not what went meanwhile.
      if (typeof admitted === 'string') admitted = await decide(true);
      if (typeof admitted !== 'string') return admitted;
      await this.#makeRoom(owner);
      admitted = await decide(true);
      if (typeof admitted === 'string' && part.kind === 'upload' && part.name !== undefined)
        void this.#drop(owner, user, part.name);
      return admitted;
    } catch (error) {
      if (error instanceof StoreAway) {
        this.#options.log.warn({ err: error }, 'the bucket does not tell what a user has: no push is refused for it');
        return {};
      }
      // Else nobody would be counted who makes enough of it.
      if (error instanceof StoreTooLarge) return tooManyNames(ownerIn(partOf(method, target)?.repository ?? '') ?? '');
      this.#options.log.warn({ err: error }, 'what a user has in the registry could not be counted');
      throw error;
    } finally {
      if (user !== undefined) user.asked -= 1;
    }
  };

  /** A deletion is not refused; what is left is counted anew after it. */
  #noted(owner: string, target: string): WriteAdmission {
    const user = this.#user(owner);
    const folder = deletedFolder(target);
    return {
      onOver: () => {
        if (folder !== undefined) this.#options.store.noteDeleted(folder);
        user.turn += 1;
        user.collectedAt = 0;
      },
    };
  }

  /** `isNew`: what is there is to be counted now. */
  async #decide({ owner, limit, part, declared }: AskedRoom, isNew: boolean): Promise<WriteAdmission | string> {
    const user = this.#user(owner);
    const usage = await this.#counts.of(owner, user, isNew);
    const bytes = part.kind === 'begin' ? await this.#mounted(part, usage) : declared;
    // From here on nothing is waited for: who comes next sees this one.
    this.#users.set(owner, user);
    const tooMany = tooManyOf(owner, user, usage, part);
    if (tooMany !== undefined) return tooMany;
    const used = sum(user, usage);
    if (!hasRoom({ used, limit, bytes, manifests: manifestsOf(user, usage) }, part.kind)) {
      return sentence(owner, used, limit, bytes);
    }
    const upload = part.kind === 'upload' ? part.name : undefined;
    const before = upload === undefined ? 0 : (sizes(user, usage).get(upload) ?? 0);
    const repository = `repositories/${part.repository}`;
    const write: OpenWrite = {
      upload,
      kind: part.kind,
      repository,
      tag: part.kind === 'manifest' && part.name !== undefined ? tagFolder(repository, part.name) : undefined,
      before,
      declared: bytes,
      passed: 0,
      over: undefined,
      past: undefined,
    };
    user.writes.add(write);
    let isCut = false;
    return {
      onBody: (more) => {
        write.passed += more;
        if (write.passed <= write.declared) return undefined;
        const known = user.known?.usage ?? usage;
        const bytesNow = sum(user, known);
        if (bytesNow <= limit) return undefined;
        if (part.kind === 'manifest' && areFewManifests(manifestsOf(user, known))) return undefined;
        write.past ??= user.turn;
        // Others may be over since: the part that comes after they were counted is refused.
        if ((user.known?.turn ?? 0) < write.past) {
          void this.#counts.of(owner, user, true).catch(() => {});
          return undefined;
        }
        isCut = true;
        return sentence(owner, bytesNow - write.passed, limit, write.passed);
      },
      onOver: () => {
        user.turn += 1;
        write.over = user.turn;
        if (part.kind === 'manifest') user.collectedAt = 0;
        if (isCut && upload !== undefined) void this.#drop(owner, user, upload);
      },
    };
  }

  /** Bytes of a blob of another repository that the user does not have yet. */
  async #mounted({ name }: PushedPart, usage: StoreUsage): Promise<number> {
    if (name === undefined || usage.blobs.has(name)) return 0;
    return (await this.#options.store.sizeOf(name)) ?? 0;
  }

  /** Gives a user back what they took the names off, and uploads that nobody goes on with. */
  async #makeRoom(owner: string): Promise<void> {
    const user = this.#user(owner);
    if (user.making === undefined) {
      if (Date.now() - user.collectedAt < this.#times.againMs) return;
      user.making = soonInTurn(this.#inTurn, 'collect', MOST_WAIT_MS, () => this.#collect(owner, user)).finally(() => {
        user.making = undefined;
      });
    }
    await user.making;
  }

  async #collect(owner: string, user: Counted): Promise<void> {
    const { store, barrier, pinned, log } = this.#options;
    const now = Date.now();
    user.collectedAt = now;
    const isMoving = (upload: string) => [...user.writes].some((write) => write.upload === upload);
    const forsaken = (await (await store.view({ owner })).uploads()).filter(
      ({ name, atMs }) => now - atMs >= FORSAKEN_MS && !isMoving(name),
    );
    await store.removeUploads(forsaken);
    user.turn += 1;
    const { manifests, blobs } = await lookForGarbage(store, { now, owner, pinned, isOwnAlone: store.isRemote });
    if (manifests.length + blobs.length === 0 || barrier.isClosed) return;
    const restMs = this.#restsUntil - performance.now();
    if (restMs > MOST_WAIT_MS) return;
    if (restMs > 0) await delay(restMs);
    const signal = AbortSignal.timeout(COLLECT_MS);
    const began = performance.now();
    let collected: Awaited<ReturnType<typeof collectGarbage>> | undefined;
    try {
      collected = await barrier.closedFor(PATIENCE_MS, () =>
        collectGarbage(store, { now: Date.now(), owner, pinned, signal }),
      );
    } catch (error) {
      if (!store.isRemote) throw error;
      // It may be too much for the time: the daily collection has longer.
      log.warn({ err: error }, 'images without a name could not be collected for a user who needs room');
    } finally {
      const ended = performance.now();
      this.#restsUntil = ended + (collected === undefined ? REST_MS : REST_SHARE * (ended - began));
    }
    user.turn += 1;
    if (collected !== undefined) log.info(collected, 'images without a name were collected for a user who needs room');
  }

  /** Removes what an upload that was refused has on the disk. */
  async #drop(owner: string, user: Counted, upload: string): Promise<void> {
    try {
      await delay(NOTICE_MS);
      const { store } = this.#options;
      const uploads = await (await store.view({ owner })).uploads();
      await store.removeUploads(uploads.filter(({ name }) => name === upload));
    } catch (error) {
      this.#options.log.warn({ err: error }, 'an upload past the limit of its user could not be removed');
    } finally {
      user.turn += 1;
    }
  }

  #user(owner: string): Counted {
    let user = this.#users.get(owner);
    if (user === undefined) {
      this.#forget();
      user = {
        writes: new Set(),
        turn: 0,
        known: undefined,
        counting: undefined,
        next: undefined,
        asked: 0,
        collectedAt: 0,
        making: undefined,
      };
      this.#users.set(owner, user);
    }
    return user;
  }

  #forget(): void {
    if (this.#users.size <= MOST_KNOWN) return;
    for (const [owner, { writes, counting, making, asked }] of this.#users)
      if (writes.size + asked === 0 && counting === undefined && making === undefined) this.#users.delete(owner);
  }
}
