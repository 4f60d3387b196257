/** API tokens, and the service accounts that some of them are of. */
import './tokens.css';
import { Ticket } from 'lucide';
import { useState } from 'preact/hooks';
import { client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { AddButton } from '../../parts/button.tsx';
import { Empty, Loading } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowsOf } from '../../parts/rows.tsx';
import { t } from '../../text/text.ts';
import { ServiceAccounts } from './accounts.tsx';
import { NewToken } from './new.tsx';
import { TokenRow } from './token-row.tsx';

export function Tokens() {
  const [isAdding, setAdding] = useState(false);
  const tokens = useLoaded((signal) => client.call('listTokens', undefined, { signal }));
  const accounts = useLoaded((signal) => client.call('listServiceAccounts', undefined, { signal }));
  const own = tokens.value?.filter(({ service_account_id }) => service_account_id === null);
  return (
    <Page
      title={t.shell.tokens}
      lead={t.tokens.lead}
      actions={<AddButton name={t.tokens.add} onClick={() => setAdding(true)} />}
      narrow
    >
      <div class="stack">
        <Loading data={tokens} tall={64} many={2} />
        {own !== undefined && (
          <Panel title={t.tokens.yours}>
            <RowsOf list={own} none={<Empty icon={Ticket} title={t.tokens.none} lead={t.tokens.noneLead} />}>
              {(token) => <TokenRow key={token.id} token={token} onGone={tokens.reload} />}
            </RowsOf>
          </Panel>
        )}
        <ServiceAccounts accounts={accounts} tokens={tokens.value ?? []} onTokens={tokens.reload} />
      </div>
      {isAdding && <NewToken onClose={() => setAdding(false)} onMade={tokens.reload} />}
    </Page>
  );
}
