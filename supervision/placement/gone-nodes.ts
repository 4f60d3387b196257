import type { ClusterView } from './view.ts';
import { packGone, readGone } from './wire.ts';

/** More nodes than this are not all told who is gone: their next beats tell them, without a rush of early ones. */
export const CROWD = 50;

/**
 * The news that a node's lease has ended. The first to see it, of as many as there are, sees it soon; it tells the
 * others, so that those who should hold what the node held, and those who wait for its answer, need not wait for a beat
 * of their own. The message only makes them look: what is true is what their own beat finds.
 */
export class GoneNodes {
  readonly #view: ClusterView;
  readonly #look: (node: string, news: Uint8Array) => void;
  /** Nodes that others told of since the last view: they need not be told on. */
  readonly #heard = new Set<string>();

  /** `look` makes another node look, with this news. */
  constructor(view: ClusterView, look: (node: string, news: Uint8Array) => void) {
    this.#view = view;
    this.#look = look;
  }

  /** The view is another, and these nodes are in it no more. */
  onView(gone: readonly string[]): void {
    const news = gone.filter((id) => !this.#heard.has(id));
    this.#heard.clear();
    const living = this.#view.nodes.size;
    // Where most are gone the database was away, or this node: nobody has to be told of that.
    if (news.length === 0 || news.length > living) return;
    const told = living <= CROWD ? this.#view.nodes.keys() : this.#view.heirs(new Set(news));
    const data = packGone(news);
    for (const id of told) this.#look(id, data);
  }

  /** Whether a message that asks to look has a reason that is not known here. One without any is a reason. */
  isNews(data: Uint8Array): boolean {
    if (data.byteLength === 0) return true;
    const news = readGone(data).filter((id) => this.#view.lives(id));
    for (const id of news) this.#heard.add(id);
    return news.length > 0;
  }
}
