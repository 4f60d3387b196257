/** What commands do, in modules that are loaded when a command runs: to list commands loads none of them. */

/** Actions for commander of the module that `load` imports: each gets what commander gives. */
export function actionsOf<M>(load: () => Promise<M>) {
  return <A extends unknown[]>(choose: (module: M) => (...given: A) => Promise<void>) =>
    async (...given: A): Promise<void> =>
      choose(await load())(...given);
}
