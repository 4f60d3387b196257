/**
 * Open logins by SSH: an actor for each, and one that ends those that lost their right, at once when there is news, and
 * in any case after 5 seconds.
 */
import type { ComputeNews, ComputeNewsSource } from '../../proto/compute/events.ts';
import type { Log } from '../../proto/ports/log.ts';
import { type AnyRef, dispatch, spawn, stop } from '../../supervision/index.ts';

const EVERY_MS = 5000;

/** A login as its actor knows it. */
interface OpenLogin {
  readonly userId: string;
  /** Ends it at once; `reason` is a sentence for the person behind it. Idempotent. */
  readonly end: (reason: string) => void;
}

/** What is particular about one kind of logins. */
interface LoginKind<L extends OpenLogin> {
  /** Of the actor that checks them, and its kind. */
  readonly name: string;
  readonly kind: string;
  /** Of the actors of logins. */
  readonly loginKind: string;
  /** Open logins of one user. */
  readonly perUser: number;
  /** Why each is to end, in order; undefined: it may go on. */
  readonly reasons: (logins: readonly L[]) => Promise<readonly (string | undefined)[]>;
  /** Which logins news is about. */
  readonly concerns: (news: ComputeNews) => (login: L) => boolean;
  /** What a login is told that is stopped by hand. */
  readonly ended: string;
}

/** See above. */
export class OpenLogins<L extends OpenLogin> {
  readonly #kind: LoginKind<L>;
  readonly #log: Log;
  readonly #news: ComputeNewsSource;
  readonly #open = new Set<L>();
  /** Logins that may have lost their right. */
  readonly #doubtful = new Set<L>();
  #look: () => void = () => {};

  constructor(
    kind: LoginKind<L>,
    { log, computeNews }: { readonly log: Log; readonly computeNews: ComputeNewsSource },
  ) {
    this.#kind = kind;
    this.#log = log;
    this.#news = computeNews;
  }

  /** Takes a login under `parent`; undefined when its user has too many. What comes back is called at its end. */
  adopt(parent: AnyRef, login: L): (() => void) | undefined {
    let mine = 0;
    for (const { userId } of this.#open) if (userId === login.userId) mine++;
    if (mine >= this.#kind.perUser) return undefined;
    const { loginKind, ended } = this.#kind;
    const ref = startLogin(parent, login, loginKind, ended);
    this.#open.add(login);
    // The answer may have changed since it was asked.
    this.#doubtful.add(login);
    this.#look();
    return () => {
      this.#open.delete(login);
      this.#doubtful.delete(login);
      stop(ref);
    };
  }

  /** Starts the actor that checks them. */
  start(parent: AnyRef): AnyRef {
    const { name, kind } = this.#kind;
    return spawn<{ readonly news: { close(): Promise<void> } }, 'look' | 'look at all'>(
      parent,
      async (state, message) => {
        if (message === 'look at all') for (const login of this.#open) this.#doubtful.add(login);
        await this.#check();
        return state;
      },
      {
        name,
        kind,
        // A look that waits checks all that are doubtful by then.
        mailbox: { capacity: 2, policy: 'drop-newest' },
        initialStateFunc: (ctx) => {
          this.#look = () => dispatch(ctx.self, 'look');
          ctx.every(EVERY_MS, 'look at all');
          return { news: this.#news.onNews((news) => this.#doubt(this.#kind.concerns(news))) };
        },
        afterStop: (state) => state.news.close(),
      },
    );
  }

  #doubt(isMeant: (login: L) => boolean): void {
    for (const login of this.#open) if (isMeant(login)) this.#doubtful.add(login);
    if (this.#doubtful.size > 0) this.#look();
  }

  async #check(): Promise<void> {
    const asked = [...this.#doubtful];
    if (asked.length === 0) return;
    this.#doubtful.clear();
    try {
      const reasons = await this.#kind.reasons(asked);
      for (const [index, login] of asked.entries()) {
        const reason = reasons[index];
        if (reason !== undefined) login.end(reason);
      }
    } catch (error) {
      for (const login of asked) if (this.#open.has(login)) this.#doubtful.add(login);
      this.#log.warn({ err: error }, 'open SSH logins could not be checked: they go on');
    }
  }
}

/** The actor of one login: the login ends with it. */
function startLogin<L extends OpenLogin>(parent: AnyRef, login: L, kind: string, ended: string): AnyRef {
  return spawn<L, 'end'>(
    parent,
    (state) => {
      state.end(ended);
      return state;
    },
    {
      kind,
      initialState: login,
      afterStop: (state) => state.end('The gateway is stopping: connect again.'),
    },
  );
}
