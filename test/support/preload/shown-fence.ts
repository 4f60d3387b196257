/** Loaded into a process under test, it writes a line to standard error for each write that the fence refuses. */
import { z } from 'zod';
import { FENCED_LINE, onFence } from './fence-statements.ts';

const resultSchema = z.object({ rowCount: z.number() });

onFence(async (statement, send) => {
  const result = await send(statement);
  if (resultSchema.safeParse(result).data?.rowCount === 0) process.stderr.write(`${FENCED_LINE}\n`);
  return result;
});
