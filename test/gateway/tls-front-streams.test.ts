/** The whole of tls-front.test.ts without the handles below sockets. */
import { useWires } from '../../transports/wire/wires.ts';

useWires('stream');
await import('./tls-front.test.ts');
