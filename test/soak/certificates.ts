/**
 * Do strangers' names cause orders, and does every hostname have its certificate, whoever is killed meanwhile?
 *
 * `npm run soak -- certificates [STRANGERS] [AT_ONCE] [NAMES] [KILLS] [SEED]`: three gateway processes with pebble; NAMES (60) hostnames are
 * mapped at once while KILLS (6) gateways get SIGKILL, then STRANGERS (100,000) hellos with names that nobody mapped, AT_ONCE (64) at a time,
 * a third of them as an authority asks. Needs pebble and a Docker Engine (DOCKER_HOST).
 */
import { runCertificateTrial } from '../support/network/certificate-trial.ts';

const [strangers = 100_000, atOnce = 64, names = 60, kills = 6, seed = Date.now() % 1000] = process.argv
  .slice(2)
  .map(Number);
process.stdout.write(`seed ${seed}\n`);
const report = await runCertificateTrial({ seed, names, kills, strangers, atOnce }, (line) =>
  process.stdout.write(`${line}\n`),
);
process.stdout.write(`${JSON.stringify(report, undefined, 2)}\n`);
