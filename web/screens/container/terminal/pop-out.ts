/** Shells in windows of their own: where they are, and their way back when such a window closes. */
const SIZE = 'width=900,height=600';

/** Windows tell the session of the shell that they leave. */
const left = new BroadcastChannel('troupe-shells');

/** What names a shell: its session, and its number within its container. */
interface ShellName {
  readonly session: string;
  readonly n: number;
}

/** Opens a window with the shell, which is taken from here. Called for a press: browsers allow it then. */
export function popOut(id: string, { session, n }: ShellName): void {
  // Without the opener: the window has a memory of its own, and does not join the other shells of this tab.
  open(`/containers/${id}/shell/${session}?n=${n}`, `troupe-${session}`, `popup,noopener,${SIZE}`);
}

/** Tells of the sessions of shells whose windows have closed. Called once. */
export function whenLeft(take: (session: string) => void): void {
  left.addEventListener('message', ({ data }) => {
    if (typeof data === 'string') take(data);
  });
}

/** Says so when this window is left. Returns what ends it. */
export function tellWhenLeft(session: string): () => void {
  const tell = () => left.postMessage(session);
  addEventListener('pagehide', tell);
  return () => removeEventListener('pagehide', tell);
}
