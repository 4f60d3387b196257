import { endSessionsScript } from '../common/ssh-sessions.ts';
import type { DockerClient } from './api/client.ts';
import { created } from './api/client.ts';
import { isReply } from './api/errors.ts';

/**
 * Ends the SSH sessions in a running container that no authorized key of it opened. Nothing to do where there is no
 * shell. Rejects with EngineError.
 */
export async function endSessions(client: DockerClient, dockerId: string): Promise<void> {
  try {
    const { Id } = await client.json('POST', `/containers/${dockerId}/exec`, created, {
      body: { Cmd: ['/bin/sh', '-c', endSessionsScript], User: '0', AttachStdout: true },
    });
    // Answered when the script is over.
    await client.call('POST', `/exec/${Id}/start`, { body: { Detach: false, Tty: false }, timeoutMs: 10_000 });
  } catch (error) {
    // 409: it ended meanwhile, and its sessions with it. The rest: the image has no shell, hence no SSH server that
    // starts one.
    if (isReply(error, 404, 409)) return;
    if (isReply(error, 400, 500) && /no such file or directory|executable file not found/i.test(error.reason)) return;
    throw error;
  }
}
