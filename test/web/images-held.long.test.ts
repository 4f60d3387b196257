/** What one's own images hold, in the console of a platform that runs a registry. */
import { describe, test } from 'node:test';
import { skipWithout } from '../support/require.ts';
import { suiteCleanup } from '../support/suite.ts';
import { openConsole, withoutConsole } from '../support/web/opened-console.ts';

describe('what images hold', { skip: withoutConsole || skipWithout('docker-registry'), timeout: 900_000 }, () => {
  const cleanup = suiteCleanup();

  test('is said beside the choice of an image', async () => {
    const opened = await openConsole(cleanup, { REGISTRY: 'auto', REGISTRY_USER_MB: '512' });
    await opened.open('/containers/new', 'Log in to troupe.localhost');
    await opened.logIn();
    await opened.heading('New container').waitFor();
    await opened.text(/Your own images hold 0 of 512 MB\./).waitFor();
  });
});
