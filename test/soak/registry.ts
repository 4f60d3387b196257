/**
 * `npm run soak -- registry [MINUTES] [front]`: 20 clients push to the platform's own registry, through the gateway, while its
 * store is collected every 10 s; ten minutes unless said otherwise. Fails when a push that said success is not whole,
 * when one did not succeed when repeated, when a read failed, or when nothing was collected. `front`: through two
 * gateways and the registry front of a cluster.
 */
import { collectionTrial } from '../support/registry/collection-trial.ts';
import { tidily } from '../support/temp.ts';

const [minutes = '10', way] = process.argv.slice(2);
const isFronted = way === 'front';
const options = { pushers: 20, seconds: Number(minutes) * 60, everyMs: 10_000, layerBytes: 300_000, isFronted };
const report = await tidily((t) => collectionTrial(t, options));
process.stdout.write(`${JSON.stringify(report, undefined, 2)}\n`);
if (report.wrong.length > 0 || report.freedBytes === 0 || report.again === 0) process.exitCode = 1;
