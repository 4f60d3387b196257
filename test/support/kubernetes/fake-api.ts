/** An API server of the test's own making: it does what a real one does only when it is in trouble. */
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { KubeClient } from '../../../transports/engines/kubernetes/client.ts';
import { tempDir } from '../temp.ts';

/** What it does with a call. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A server that answers so; what it was asked (paths and queries), a kubeconfig for it, and a client. It goes with the test. */
export async function fakeApiServer(t: TestContext, answer: Answer) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  const kubeconfig = join(await tempDir(t), 'kubeconfig');
  const write = (token: string): Promise<void> =>
    writeFile(
      kubeconfig,
      JSON.stringify({
        'current-context': 'c',
        clusters: [{ name: 'c', cluster: { server: url, 'insecure-skip-tls-verify': true } }],
        users: [{ name: 'u', user: { token } }],
        contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      }),
    );
  await write('first');
  const client = new KubeClient({ kubeconfig });
  t.after(() => client.close());
  return { url, asked, kubeconfig, write, client };
}

/** Answers as the API refuses. */
export function status(response: ServerResponse, code: number, reason: string, message: string, headers = {}): void {
  response.writeHead(code, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify({ kind: 'Status', code, reason, message }));
}
