/** Imported first: ends the program where Node.js is too old for the rest of it. */
import { howToGetNode, nodeRelease } from './node-release.ts';

const { isEnough, version } = nodeRelease();
if (!isEnough) {
  process.stderr.write(`troupe: Node.js ${version} is too old to run it. ${howToGetNode()}\n`);
  process.exit(1);
}
