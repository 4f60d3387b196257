/** What a tool of the MCP server is. */
import { z } from 'zod';
import { type Outlook, type TroupeClient, TroupeError } from '../../../client/index.ts';
import { validationMessage } from '../../../proto/validation-messages.ts';

/** What a tool works with. */
export interface ToolContext {
  /** Calls the platform as whoever uses the tools. */
  readonly client: TroupeClient;
  /** From where containers are called. */
  readonly outlook: () => Outlook | Promise<Outlook>;
  /** Aborted when the client gives the call up. */
  readonly signal: AbortSignal;
}

/** What a client may assume of a tool before it asks a person (annotations of the protocol). */
type Effect =
  /** It changes nothing. */
  | 'reads'
  /** It adds something, with each call. */
  | 'adds'
  /** It changes something so that another call changes nothing more. */
  | 'sets'
  /** It may destroy something; another call changes nothing more. */
  | 'destroys'
  /** It may do anything. */
  | 'acts';

/** A tool, whatever its types. */
export interface Tool {
  readonly name: string;
  /** As the protocol lists it. */
  readonly listed: ListedTool;
  /** Rejects with TroupeError: for arguments that do not fit, and for what the platform refuses. */
  call(args: unknown, context: ToolContext): Promise<Record<string, unknown>>;
}

interface ListedTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: ObjectSchema;
  readonly outputSchema: ObjectSchema;
  readonly annotations: ReturnType<typeof annotationsOf>;
}

/** A JSON Schema of an object. */
const objectSchema = z.looseObject({ type: z.literal('object') });
type ObjectSchema = z.output<typeof objectSchema>;

interface ToolDefinition<I extends z.ZodObject, O extends z.ZodObject> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly effect: Effect;
  readonly input: I;
  readonly output: O;
  run(args: z.output<I>, context: ToolContext): Promise<z.input<O>>;
}

/** Makes a tool. Members of a result that its schema does not know are left out: a newer platform may send some. */
export function tool<I extends z.ZodObject, O extends z.ZodObject>(definition: ToolDefinition<I, O>): Tool {
  const { name, title, description, effect, input, output, run } = definition;
  return {
    name,
    listed: {
      name,
      title,
      description,
      inputSchema: jsonSchema(input, 'input'),
      outputSchema: jsonSchema(output, 'output'),
      annotations: annotationsOf(effect, title),
    },
    call: async (args, context) => output.parse(await run(checked(input, args), context)),
  };
}

function checked<I extends z.ZodObject>(input: I, args: unknown): z.output<I> {
  const { data, error } = input.safeParse(args, { error: validationMessage });
  if (data !== undefined) return data;
  const fields = error?.issues.map(({ path, message }) => ({ path: path.join('.'), message })) ?? [];
  const [first] = fields;
  const said = first === undefined ? '' : ` ${first.path === '' ? 'what is given' : first.path} ${first.message}.`;
  throw new TroupeError('invalid_request', `The arguments are not valid:${said}`, { status: 400, fields });
}

function jsonSchema(schema: z.ZodObject, io: 'input' | 'output'): ObjectSchema {
  // Validators of clients know this draft without more.
  return objectSchema.parse(z.toJSONSchema(schema, { target: 'draft-7', io }));
}

function annotationsOf(effect: Effect, title: string) {
  return {
    title,
    readOnlyHint: effect === 'reads',
    destructiveHint: effect === 'destroys' || effect === 'acts',
    idempotentHint: effect !== 'adds' && effect !== 'acts',
    openWorldHint: effect === 'acts',
  };
}
