import {
  ActorError,
  dispatch,
  query,
  type Ref,
  type SupervisorSpec,
  spawn,
  start,
  startSupervisor,
  stop,
  stopped,
} from 'troupe/actors';

type StockMessage =
  | { readonly type: 'take'; readonly item: string; readonly replyTo: Ref<number> }
  | { readonly type: 'audit' };

const system = start({ name: 'example' });

/** The stock in its lives, the current one last: each start makes another actor. */
const stocks: Ref<StockMessage>[] = [];

const shop: SupervisorSpec = {
  name: 'shop',
  // The till works on what the stock says: it is restarted with it.
  strategy: 'rest-for-one',
  // At the fourth restart within ten seconds the shop gives up and stops itself.
  intensity: { max: 3, withinMs: 10_000 },
  children: [
    {
      id: 'stock',
      restart: 'permanent',
      shutdownMs: 1000,
      start(parent) {
        const stock = spawn(parent, takeFromStock, { name: 'stock', initialStateFunc: () => new Map([['pear', 2]]) });
        stocks.push(stock);
        return stock;
      },
    },
    {
      id: 'till',
      restart: 'permanent',
      shutdownMs: 1000,
      start: (parent) => spawn(parent, (sum: number, price: number) => sum + price, { name: 'till', initialState: 0 }),
    },
  ],
};

function takeFromStock(items: Map<string, number>, message: StockMessage): Map<string, number> {
  if (message.type === 'audit') throw new Error('the books are on fire');
  const left = (items.get(message.item) ?? 0) - 1;
  dispatch(message.replyTo, left);
  return items.set(message.item, left);
}

function take(): Promise<number> {
  const stock = stocks.at(-1);
  if (stock === undefined) throw new Error('the stock was never started');
  return query(stock, (replyTo: Ref<number>): StockMessage => ({ type: 'take', item: 'pear', replyTo }), 1000);
}

await startSupervisor(system, shop);
console.log(`${await take()} pear left`);

const [first] = stocks;
if (first !== undefined) {
  dispatch(first, { type: 'audit' }); // The actor crashes and ends, and the supervisor starts another one.
  console.log(`the stock ended: ${(await stopped(first)).kind}`);
}

// A ref stays valid after the end of its actor; what is sent to it is refused.
await take().catch((error: unknown) => console.log(error instanceof ActorError ? error.code : error));
while (stocks.length < 2) await new Promise((resolve) => setImmediate(resolve));
console.log(`${await take()} pear left, after ${stocks.length} starts`);

stop(system);
await stopped(system);
