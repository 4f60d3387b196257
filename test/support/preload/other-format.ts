/** Loaded into a process under test (`node --import`): it speaks the format after ours with other nodes, and reads no other. */
import { register } from 'node:module';

const hooks = `
export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!/\\/proto\\/ports\\/placement\\.[jt]s(\\?|$)/.test(url)) return loaded;
  const source = String(typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source));
  const changed = source.replace(/NODE_FORMAT = (\\d+)/, (_, format) => 'NODE_FORMAT = ' + (Number(format) + 1));
  if (changed === source) throw new TypeError('there is no NODE_FORMAT to be changed');
  return { ...loaded, source: changed };
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
