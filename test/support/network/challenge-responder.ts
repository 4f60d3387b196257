/** A TLS listener that answers challenges, and nothing else. */
import { once } from 'node:events';
import { createSecureContext, createServer } from 'node:tls';
import type { CertificatePem } from '../../../proto/ports/acme.ts';
import type { Cleanup } from '../temp.ts';

/** Opens it on a free port; returns that. */
export async function openChallengeListener(
  t: Cleanup,
  challenges: ReadonlyMap<string, CertificatePem>,
): Promise<number> {
  const server = createServer(
    {
      ALPNProtocols: ['acme-tls/1'],
      SNICallback: (name, done) => {
        const challenge = challenges.get(name);
        done(null, challenge === undefined ? undefined : createSecureContext(challenge));
      },
    },
    (socket) => void socket.on('error', () => {}).end(),
  );
  server.on('tlsClientError', () => {});
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.close();
    await once(server, 'close');
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}
