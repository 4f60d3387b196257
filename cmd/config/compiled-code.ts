import module from 'node:module';

/** Writes down what start.ts lets Node keep: a server may be killed before it ends. */
export function saveCompiledCode(): void {
  // Node 20 does not have it.
  const save: unknown = Reflect.get(module, 'flushCompileCache');
  if (typeof save === 'function') Reflect.apply(save, module, []);
}
