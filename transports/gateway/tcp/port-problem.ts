/** Tries a port without serving anything on it. */
import { createServer } from 'node:net';

/**
 * Why this address cannot be listened on, as the end of "it is ..."; undefined when it can. Node lets an address be
 * taken again that was only just let go (SO_REUSEADDR), so a restart finds its ports free.
 */
export function portProblem(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', (error) => {
      const code = 'code' in error ? error.code : undefined;
      if (code === 'EADDRINUSE') resolve('taken');
      else resolve(code === 'EACCES' ? "root's: ports below 1024 are" : `refused, ${error.message}`);
    });
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(undefined)));
  });
}
